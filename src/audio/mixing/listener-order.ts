import type { Listener } from './subscriptions.ts';

/**
 * Puts the changed listener `after` at the place of `before`, in the order in which listeners get individual mixes; at the end if `before`
 * had no volumes, because its first ones must not cost another listener an individual mix.
 * @param listeners listeners in that order; `before` is one of them
 * @returns the listeners in the new order
 */
export function exchangeListener(
  listeners: Set<Listener>,
  before: Listener,
  after: Listener,
): Set<Listener> {
  if (hasVolumes(before)) {
    return new Set([...listeners].map((each) => (each === before ? after : each)));
  }
  listeners.delete(before);
  return listeners.add(after);
}

const hasVolumes = ({ volume }: Listener) => Object.values(volume).some((gain) => gain !== 1);
