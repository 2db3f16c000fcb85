import { counters } from '../counters.ts';
import type { Slices } from '../slices.ts';
import { RelayActiveSpeakers } from './relay-active-speakers.ts';

/** WebSocket peer of this node, as the relay of messages of unknown formats sees it. */
export type RelayListener = {
  readonly peer: string;
  /** False while the peer is sent audio of known formats. */
  readonly takesRelayed: boolean;
  /** False if the peer has turned the volume of another one to 0. */
  hears(peer: string): boolean;
  deliver(message: Buffer): void;
};

export type RelayParts = {
  slices: Slices;
  /** Number of other nodes that have the room. */
  countNodes: () => number;
  /** Sends a message to all nodes that have the room. */
  sendToNodes: (peer: string, message: Buffer) => void;
  /** Charges the account of the room. @returns false if its budget is used up */
  charge: (cost: number) => boolean;
  /** Called when a peer has begun to send. */
  onActiveSpeakersChanged: () => void;
  /** Returns whether a peer is in the room, on any node. */
  isInRoom: (peer: string) => boolean;
  /** Minimum time for which a peer counts as talking after a message. */
  holdMs: number;
};

/** Number of bytes whose copy to a listener costs as much as the delivery of an empty message. */
const BYTES_PER_COST = 4096;
/** Number of listeners that can be asked whether they accept a message at the cost of one delivery. */
const ASKED_PER_COST = 25;
/** Cost of deliveries in one slice before other work gets its turn: about 1 ms. */
const COST_PER_TASK = 64;
/** Number of listeners above which a room reuses its list of accepting listeners, because asking one takes 0.5 µs. */
const ALWAYS_ASKED = 32;
/** Time for which that list is reused, ms. */
const ASK_EVERY_MS = 20;

/** Maximum memory of messages that wait for their delivery, bytes. */
const MAX_WAITING_BYTES = 4 << 20;
/** Maximum time for which a message waits for its delivery, ms. */
const MAX_WAITING_MS = 2500;
/** Bytes added to the length of each waiting message, so that the number of small ones is limited, too. */
const OVERHEAD_BYTES = 1024;

/** A message and the listeners that accept it: each task delivers it to `perTask` of them, from index `next`. */
type PendingDelivery = {
  readonly peer: string;
  readonly takers: readonly RelayListener[];
  next: number;
  readonly perTask: number;
  readonly message: Buffer;
  readonly atMs: number;
};

const memoryOf = (message: Buffer) => message.length + OVERHEAD_BYTES;

/** Cost of one delivery. */
const costOf = (message: Buffer) => 1 + message.length / BYTES_PER_COST;

/** Selects the listeners of a message of an unknown format. Pure. */
export function takersOf(listeners: Iterable<RelayListener>, from: string): RelayListener[] {
  return [...listeners].filter(
    (listener) => listener.peer !== from && listener.takesRelayed && listener.hears(from),
  );
}

/**
 * Relay of messages of unknown formats in one room. It passes them on unchanged and in order, without the mixer and the router. The
 * work for a message grows with the number of listeners, so it is charged to the account, and done in slices.
 */
export class Relay {
  readonly #parts: RelayParts;
  readonly #listeners = new Set<RelayListener>();
  readonly #activeSpeakers: RelayActiveSpeakers;
  /** Listeners of a large room that accepted messages when last asked. */
  #known: { takers: RelayListener[]; atMs: number } | undefined;
  /** Messages, each with the listeners to which it is still to be delivered. */
  readonly #waiting: PendingDelivery[] = [];
  #waitingBytes = 0;

  constructor(parts: RelayParts) {
    this.#parts = parts;
    this.#activeSpeakers = new RelayActiveSpeakers(parts.holdMs);
  }

  add(listener: RelayListener): void {
    this.#listeners.add(listener);
    this.#known = undefined;
  }

  remove(listener: RelayListener): void {
    this.#listeners.delete(listener);
    this.#known = undefined;
  }

  /** Relays a message of a peer of this node to all nodes. */
  send(peer: string, message: Buffer): void {
    const { countNodes, sendToNodes } = this.#parts;
    const nodes = countNodes();
    if (nodes > 0 && this.#charge(nodes * costOf(message))) sendToNodes(peer, message);
    this.receive(peer, message);
  }

  /** Delivers a message of a peer of any node to the listeners of this node. */
  receive(peer: string, message: Buffer): void {
    const { slices, isInRoom, onActiveSpeakersChanged } = this.#parts;
    const nowMs = performance.now();
    const takers = this.#takersOf(peer, nowMs);
    if (!takers) return;
    // A message may arrive before the news that its sender has joined, or after the news that it
    // has left.
    if (isInRoom(peer) && this.#activeSpeakers.heard(peer, nowMs)) onActiveSpeakersChanged();
    if (takers.length === 0 || !this.#charge(takers.length * costOf(message))) return;
    const perTask = Math.max(1, Math.floor(COST_PER_TASK / costOf(message)));
    this.#waiting.push({ peer, takers, next: 0, perTask, message, atMs: nowMs });
    this.#waitingBytes += memoryOf(message);
    this.#dropOldest();
    for (let first = 0; first < takers.length; first += perTask) {
      slices.add(this, this.#deliverSome);
    }
  }

  /**
   * Returns the listeners that may accept a message. In a large room the list is up to {@link ASK_EVERY_MS} old and may include the
   * sender, so each listener is checked again at the delivery.
   * @returns undefined if the budget does not cover checking the listeners
   */
  #takersOf(peer: string, nowMs: number): readonly RelayListener[] | undefined {
    const isLarge = this.#listeners.size > ALWAYS_ASKED;
    if (isLarge && this.#known && nowMs - this.#known.atMs < ASK_EVERY_MS) {
      return this.#known.takers;
    }
    if (!this.#charge(this.#listeners.size / ASKED_PER_COST)) return undefined;
    if (!isLarge) return takersOf(this.#listeners, peer);
    const takers = [...this.#listeners].filter(({ takesRelayed }) => takesRelayed);
    this.#known = { takers, atMs: nowMs };
    return takers;
  }

  #charge(cost: number): boolean {
    const isPaid = this.#parts.charge(cost);
    if (!isPaid) counters.dropped.not_relayed += 1;
    return isPaid;
  }

  /** Drops the oldest messages beyond the limits of time and memory. */
  #dropOldest(): void {
    const nowMs = performance.now();
    for (let oldest = this.#waiting[0]; oldest; oldest = this.#waiting[0]) {
      const isTooOld = nowMs - oldest.atMs > MAX_WAITING_MS;
      if (!isTooOld && this.#waitingBytes <= MAX_WAITING_BYTES) return;
      this.#shift();
      counters.dropped.not_relayed += 1;
    }
  }

  #shift(): void {
    const oldest = this.#waiting.shift();
    if (oldest) this.#waitingBytes -= memoryOf(oldest.message);
  }

  readonly #deliverSome = (): void => {
    this.#dropOldest();
    const [oldest] = this.#waiting;
    if (!oldest) return;
    const { peer, takers, next, perTask, message } = oldest;
    oldest.next += perTask;
    for (const taker of takers.slice(next, oldest.next)) {
      const isListener = taker.peer !== peer && this.#listeners.has(taker);
      if (isListener && taker.hears(peer)) taker.deliver(message);
    }
    if (oldest.next >= takers.length) this.#shift();
  };

  /** Returns the peers that send now. */
  talking(): string[] {
    return this.#activeSpeakers.talking(performance.now());
  }

  /** Forgets a peer that has left the room. */
  forget(peer: string): void {
    this.#activeSpeakers.forget(peer);
  }
}
