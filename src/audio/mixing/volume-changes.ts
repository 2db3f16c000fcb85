import { type Change, gainOf, type HeardSpeaker, type Listener } from './subscriptions.ts';

/** A running change of gain. It ends when a frame of it has been heard, or after `ticksLeft` ticks without a frame. */
export type RunningChange = Change & { isHeard: boolean; ticksLeft: number };

/** Number of ticks without a frame after which a change ends: no mix waits longer. */
const CHANGE_TICKS = 10;

/**
 * Listeners for which the gain of some speakers changes, until they have heard one frame that changes from the old gain
 * to the new.
 */
export class VolumeChanges {
  readonly #running = new Map<Listener, RunningChange>();
  #begun = 0;

  get running(): ReadonlyMap<Listener, RunningChange> {
    return this.#running;
  }

  /**
   * @param mixed speakers that the listener may have heard until now
   * @param isOnItsWay returns true if a frame of the change of this name has been requested and is not complete yet
   */
  begin(
    before: Listener,
    after: Listener,
    mixed: HeardSpeaker[],
    isOnItsWay: (name: string) => boolean,
  ): void {
    const last = this.#running.get(before);
    const isUnheard = last && !last.isHeard && !isOnItsWay(last.name);
    const gains = mixed.map((speaker) => [speaker.id, gainOf(before, speaker)] as const);
    this.#running.delete(before);
    this.#begun += 1;
    this.#running.set(after, {
      name: `change ${this.#begun}`,
      // An intermediate gain of two changes between two ticks was never heard.
      before: new Map(isUnheard ? [...gains, ...last.before] : gains),
      isHeard: false,
      ticksLeft: CHANGE_TICKS,
    });
  }

  /**
   * Records that the output of a tick is complete, for the changes that were running when it began. @returns true if
   * any change has ended
   */
  ticked(changes: RunningChange[]): boolean {
    for (const change of changes) change.ticksLeft -= 1;
    const over = [...this.#running].filter(
      ([, { isHeard, ticksLeft }]) => isHeard || ticksLeft <= 0,
    );
    for (const [listener] of over) this.#running.delete(listener);
    return over.length > 0;
  }

  delete(listener: Listener): void {
    this.#running.delete(listener);
  }

  clear(): void {
    this.#running.clear();
  }
}
