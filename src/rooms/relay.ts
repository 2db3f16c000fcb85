import { counts } from '../counters.ts';
import type { Slices } from '../slices.ts';
import { RelayTalkers } from './relay-talkers.ts';

/** A WebSocket peer of this node, as far as messages of unknown formats concern it. */
export type RelayListener = {
  readonly peer: string;
  /** False while the peer is sent sound that is known. */
  readonly takesRelayed: boolean;
  /** False if the peer has turned the volume of another one to 0. */
  hears(peer: string): boolean;
  deliver(message: Buffer): void;
};

export type RelayParts = {
  slices: Slices;
  /** Number of other nodes that have the room. */
  countNodes: () => number;
  /** Sends a message to all of them. */
  sendToNodes: (peer: string, message: Buffer) => void;
  /** Charges the account of the room. @returns false if its budget is used up */
  charge: (cost: number) => boolean;
  /** A peer has begun to send. */
  onTalkersChanged: () => void;
  /** Returns whether a peer is in the room, on any node. */
  isInRoom: (peer: string) => boolean;
  /** Minimum time for which a peer counts as talking after a message. */
  holdMs: number;
};

/** Bytes that cost as much to copy to a listener as a message itself. */
const BYTES_PER_COST = 4096;
/** Listeners that can be asked whether they take a message at the cost of one delivery. */
const ASKED_PER_COST = 25;
/** Listeners to whom a message is delivered before other work may have its turn: about 1 ms. */
const TAKERS_PER_TASK = 64;

/** Memory of messages that wait for the event loop, and their age. */
const MAX_WAITING_BYTES = 4 << 20;
const MAX_WAITING_MS = 2500;
/** Added to each message, so that small ones are bounded in number, too. */
const OVERHEAD_BYTES = 1024;

const memoryOf = (message: Buffer) => message.length + OVERHEAD_BYTES;

/** Cost of one delivery. */
const costOf = (message: Buffer) => 1 + message.length / BYTES_PER_COST;

/** Listeners that get a message of an unknown format. Pure. */
export function takersOf(listeners: Iterable<RelayListener>, from: string): RelayListener[] {
  return [...listeners].filter(
    (listener) => listener.peer !== from && listener.takesRelayed && listener.hears(from),
  );
}

/**
 * Messages of unknown formats in one room: relayed unchanged and in order, beside the mixer and the router, which know nothing of
 * them. One message to many listeners is work that grows with the room: it is charged to the account, and done in slices.
 */
export class Relay {
  readonly #parts: RelayParts;
  readonly #listeners = new Set<RelayListener>();
  readonly #talkers: RelayTalkers;
  /** Messages, and those to whom they are still to be delivered. */
  readonly #waiting: { takers: RelayListener[]; message: Buffer; atMs: number }[] = [];
  #waitingBytes = 0;

  constructor(parts: RelayParts) {
    this.#parts = parts;
    this.#talkers = new RelayTalkers(parts.holdMs);
  }

  add(listener: RelayListener): void {
    this.#listeners.add(listener);
  }

  remove(listener: RelayListener): void {
    this.#listeners.delete(listener);
  }

  /** A peer of this node sends a message. */
  send(peer: string, message: Buffer): void {
    const { countNodes, sendToNodes } = this.#parts;
    const nodes = countNodes();
    if (nodes > 0 && this.#charge(nodes * costOf(message))) sendToNodes(peer, message);
    this.receive(peer, message);
  }

  /** A peer of any node has sent a message. */
  receive(peer: string, message: Buffer): void {
    const { slices, isInRoom, onTalkersChanged } = this.#parts;
    if (!this.#charge(this.#listeners.size / ASKED_PER_COST)) return;
    // A message may come before the word that its sender has joined, and after the word that it has left.
    if (isInRoom(peer) && this.#talkers.heard(peer, performance.now())) onTalkersChanged();
    const takers = takersOf(this.#listeners, peer);
    if (takers.length === 0 || !this.#charge(takers.length * costOf(message))) return;
    this.#waiting.push({ takers, message, atMs: performance.now() });
    this.#waitingBytes += memoryOf(message);
    this.#dropOldest();
    for (let first = 0; first < takers.length; first += TAKERS_PER_TASK) {
      slices.add(this, this.#deliverSome);
    }
  }

  #charge(cost: number): boolean {
    const isPaid = this.#parts.charge(cost);
    if (!isPaid) counts.dropped.not_relayed += 1;
    return isPaid;
  }

  /** While the event loop does not keep up, the oldest messages are dropped. */
  #dropOldest(): void {
    const nowMs = performance.now();
    for (let oldest = this.#waiting[0]; oldest; oldest = this.#waiting[0]) {
      const isTooOld = nowMs - oldest.atMs > MAX_WAITING_MS;
      if (!isTooOld && this.#waitingBytes <= MAX_WAITING_BYTES) return;
      this.#shift();
      counts.dropped.not_relayed += 1;
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
    const { takers, message } = oldest;
    for (const taker of takers.splice(0, TAKERS_PER_TASK)) {
      if (this.#listeners.has(taker)) taker.deliver(message);
    }
    if (takers.length === 0) this.#shift();
  };

  /** Peers that send now. */
  talking(): string[] {
    return this.#talkers.talking(performance.now());
  }

  /** A peer is not in the room any more. */
  forget(peer: string): void {
    this.#talkers.forget(peer);
  }
}
