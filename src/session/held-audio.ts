import type { TimedMessage } from '../audio/ingest/detection/pace.ts';

/** Time for which a client's messages are handed on in one turn, ms; one is, however long it takes. */
const PIECE_MS = 1;

/** Turns of the event loop: `begin` returns true if work may start at once, `take` starts it when its turn comes. */
export type Turn = { begin(): boolean; take(start: () => void): void };

/**
 * Audio of a client that is joining a room: held until the client has joined, and then handed on in order, a few
 * messages at a time, in turn with the work of other clients. Encoding a second of samples takes tens of milliseconds.
 */
export class HeldAudio {
  readonly #handOn: (held: TimedMessage) => void;
  readonly #turn: Turn;
  readonly #now: () => number;
  #messages: TimedMessage[] = [];
  #bytes = 0;
  /** True if nothing is held: read for every message. */
  isEmpty = true;
  #isDraining = false;
  /** Number of times that everything was removed. */
  #emptied = 0;

  /** @param now a monotonic clock, ms */
  constructor(
    handOn: (held: TimedMessage) => void,
    turn: Turn,
    now: () => number = () => performance.now(),
  ) {
    this.#handOn = handOn;
    this.#turn = turn;
    this.#now = now;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Arrival time of the first held message, ms of the monotonic clock; undefined if none is held. */
  get sinceMs(): number | undefined {
    return this.#messages[0]?.atMs;
  }

  hold(held: TimedMessage): void {
    this.#messages.push(held);
    this.isEmpty = false;
    this.#bytes += held.message.length;
  }

  /** Returns all held messages, and holds none from then on. */
  takeAll(): TimedMessage[] {
    const messages = this.#messages;
    this.#messages = [];
    this.#isDraining = false;
    this.#emptied += 1;
    this.#bytes = 0;
    this.isEmpty = true;
    return messages;
  }

  /** Hands everything on at once. */
  flush(): void {
    for (const held of this.takeAll()) this.#handOn(held);
  }

  /** Hands on the oldest at once, until no more than `bytes` are held. */
  flushDownTo(bytes: number): void {
    while (this.#bytes > bytes) this.#handOnFirst();
  }

  /** Hands everything on, as far as there is time now, and the rest in later turns. */
  drain(): void {
    if (!this.#isDraining) this.#continue();
  }

  #continue(): void {
    this.#isDraining = false;
    while (this.#messages.length > 0 && this.#turn.begin()) this.#handOnFirst();
    if (this.#messages.length === 0) return;
    this.#isDraining = true;
    const emptied = this.#emptied;
    this.#turn.take(() => {
      // Messages that have come since it was emptied wait for a drain of their own.
      if (emptied !== this.#emptied) return;
      // One message a turn would be slower than the client talks where turns come seldom.
      const endMs = this.#now() + PIECE_MS;
      do this.#handOnFirst();
      while (this.#messages.length > 0 && emptied === this.#emptied && this.#now() < endMs);
      this.#continue();
    });
  }

  #handOnFirst(): void {
    const held = this.#messages.shift();
    if (!held) return;
    this.#bytes -= held.message.length;
    this.isEmpty = this.#messages.length === 0;
    this.#handOn(held);
  }
}
