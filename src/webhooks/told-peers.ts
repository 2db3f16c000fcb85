import { type Change, joined, left, type PresentPeer } from './events.ts';
import { keyOf } from './webhook-store.ts';

/** Real state, with which the reported one is compared. */
type RealState = {
  /** Peers in rooms of this node, by {@link presenceKey}. */
  present: ReadonlyMap<string, PresentPeer>;
  /** Returns whether the leave of a peer is reported later; called with its {@link presenceKey}. */
  isLeaveHeld: (key: string) => boolean;
  /** Returns whether the account of a peer has a webhook. */
  isListening: (peer: PresentPeer) => boolean;
  /** Time of the changes, ms since 1970. */
  wallMs: number;
};

/** Peers of this node that Redis holds as present, because changes of accounts with a webhook said so. */
export class ToldPeers {
  readonly #peers = new Map<string, PresentPeer>();

  get size(): number {
    return this.#peers.size;
  }

  list(): PresentPeer[] {
    return [...this.#peers.values()];
  }

  /** Notes a change that was written. */
  note(change: Change): void {
    if (change.op === 'once') return;
    const { accountId, room, peer, kind } = change;
    const key = presenceKey(change);
    if (change.op === 'join') this.#peers.set(key, { accountId, room, peer, kind });
    else this.#peers.delete(key);
  }

  /** Returns the changes by which the real state differs from the reported one. */
  missing({ present, isLeaveHeld, isListening, wallMs }: RealState): Change[] {
    const isHere = (key: string) => present.has(key) || isLeaveHeld(key);
    const gone = [...this.#peers].filter(([key, peer]) => !isHere(key) || !isListening(peer));
    const come = [...present].filter(([key, peer]) => !this.#peers.has(key) && isListening(peer));
    // Entries come first, so that a room with peers in it does not end.
    return [
      ...come.map(([, peer]) => joined(peer, wallMs)),
      ...gone.map(([, peer]) => left(peer, 'closed', wallMs)),
    ];
  }
}

/** Returns the key of a peer in a room. */
export const presenceKey = (of: Omit<PresentPeer, 'kind'>) => `${keyOf(of)}\n${of.peer}`;
