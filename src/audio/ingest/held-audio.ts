import type { TimedMessage } from './detection/pace.ts';

/** Maximum time for which a client's messages are passed on in one turn, ms; at least one message is passed on. */
const PIECE_MS = 1;

/** Minimum size that counts for a held message, bytes: otherwise a limit in bytes would admit tens of thousands of tiny messages. */
const MIN_SIZE_BYTES = 128;

const sizeOf = ({ message }: TimedMessage) => Math.max(message.length, MIN_SIZE_BYTES);

/** Turns of the event loop: `begin` returns true if work may start at once, `take` starts it when its turn comes, at once if it may. */
export type Turn = { begin(): boolean; take(start: () => void): void };

/** Turn that waits for nobody. */
export const AT_ONCE: Turn = { begin: () => true, take: (start) => start() };

/** Runs a piece of work when its turn comes. Resolves when it is done, and rejects if it throws. */
export const inTurn = (turn: Turn, work: () => void): Promise<void> =>
  new Promise((resolve, reject) => {
    turn.take(() => {
      try {
        work();
        resolve();
      } catch (fault) {
        reject(fault);
      }
    });
  });

/**
 * Audio of a client that is joining a room, held until it has joined, or whose format has just been detected: handed on in order, a few
 * messages at a time, in turn with the work of other clients. Encoding a second of samples takes milliseconds.
 * Messages behind a mark stay held until the mark is passed, whatever happens to those before it.
 */
export class HeldAudio<Held extends TimedMessage = TimedMessage> {
  readonly #handOn: (held: Held) => void;
  readonly #turn: Turn;
  readonly #now: () => number;
  #messages: Held[] = [];
  /** Messages behind each mark, in order. */
  #behindMarks: Held[][] = [];
  #bytes = 0;
  /** True if nothing is held and no mark is set: read for every message. */
  isEmpty = true;
  #isDraining = false;
  /** Number of times that everything was removed. */
  #emptied = 0;

  /** @param now a monotonic clock, ms */
  constructor(
    handOn: (held: Held) => void,
    turn: Turn,
    now: () => number = () => performance.now(),
  ) {
    this.#handOn = handOn;
    this.#turn = turn;
    this.#now = now;
  }

  /** Total size of the held messages, before and behind marks, bytes; each counts for at least {@link MIN_SIZE_BYTES}. */
  get bytes(): number {
    return this.#bytes;
  }

  /** True if a mark is set: the next message is held behind it. */
  get isMarked(): boolean {
    return this.#behindMarks.length > 0;
  }

  /** Arrival time of the first held message, ms of the monotonic clock; undefined if none is held. */
  get sinceMs(): number | undefined {
    return [this.#messages, ...this.#behindMarks].find(({ length }) => length > 0)?.[0]?.atMs;
  }

  hold(held: Held): void {
    (this.#behindMarks.at(-1) ?? this.#messages).push(held);
    this.isEmpty = false;
    this.#bytes += sizeOf(held);
  }

  /** Holds messages that come before all others. */
  holdFirst(held: readonly Held[]): void {
    this.#messages = [...held, ...this.#messages];
    for (const each of held) this.#bytes += sizeOf(each);
    this.#noteIfEmpty();
  }

  /** Sets a mark behind all held messages. */
  mark(): void {
    this.#behindMarks.push([]);
    this.isEmpty = false;
  }

  /** Removes the first mark: the messages behind it, up to the next mark, follow those before it. */
  passMark(): void {
    for (const held of this.#behindMarks.shift() ?? []) this.#messages.push(held);
    this.#noteIfEmpty();
  }

  /** Returns all held messages before the first mark, and holds none of them from then on. */
  takeAll(): Held[] {
    const messages = this.#messages;
    this.#messages = [];
    this.#isDraining = false;
    this.#emptied += 1;
    for (const each of messages) this.#bytes -= sizeOf(each);
    this.#noteIfEmpty();
    return messages;
  }

  /** Drops all held messages and marks. */
  clear(): void {
    this.#behindMarks = [];
    this.takeAll();
    this.#bytes = 0;
  }

  /** Hands on everything before the first mark, at once. */
  flush(): void {
    // Draining, so that a message that opens another input does not hand on those behind it first.
    this.#isDraining = true;
    while (this.#messages.length > 0) this.#handOnFirst();
    this.takeAll();
  }

  /** Hands on the oldest before the first mark at once, until no more than `bytes` are held. */
  flushDownTo(bytes: number): void {
    while (this.#bytes > bytes && this.#messages.length > 0) this.#handOnFirst();
  }

  /** Hands on everything before the first mark, as far as there is time now, and the rest in later turns. */
  drain(): void {
    if (!this.#isDraining) this.#continue();
  }

  #continue(): void {
    this.#isDraining = true;
    while (this.#messages.length > 0 && this.#turn.begin()) this.#handOnFirst();
    if (this.#messages.length === 0) {
      this.#isDraining = false;
      return;
    }
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
    this.#bytes -= sizeOf(held);
    this.#noteIfEmpty();
    this.#handOn(held);
  }

  #noteIfEmpty(): void {
    this.isEmpty = this.#messages.length === 0 && this.#behindMarks.length === 0;
  }
}
