import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { type LoopTime, loopTime } from '../loop-time.ts';
import type { Reading } from './read-gate.ts';

/** Longest time in a row that work takes turns before the event loop gets to do other things (sound first of all), ms; less while others work in slices, too. */
const SLICE_MS = 4;

/** Size of a chunk that suggests that more waits in the kernel: the most bytes of a TLS record; a read of TCP has up to four times as many. */
const FULL_CHUNK_BYTES = 16 * 1024;

/**
 * Deals the event loop out to pieces of work: the accounts in turn, and no more than a slice of time at once. A piece that comes
 * while nothing else waits starts at once.
 */
export class Turns {
  /** By account, in the order in which their turns come; none is empty. */
  readonly #waiting = new Map<number, (() => void)[]>();
  /** When the first piece started in this turn of the event loop. */
  #sliceAtMs: number | undefined;
  #isScheduled = false;
  readonly #time: LoopTime;
  readonly #now: () => number;

  /**
   * @param time shared with others that work in slices
   * @param now a monotonic clock, ms
   */
  constructor(time = loopTime, now = () => performance.now()) {
    this.#time = time;
    this.#now = now;
  }

  /** Runs a piece of work when its turn comes; settles as it does. */
  run<T>(accountId: number, work: () => Promise<T> | T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.take(accountId, () => {
        try {
          resolve(work());
        } catch (fault) {
          reject(fault);
        }
      });
    });
  }

  /** Starts a piece of work, which throws nothing, when its turn comes. */
  take(accountId: number, start: () => void): void {
    if (this.begin()) {
      start();
      return;
    }
    const waiting = this.#waiting.get(accountId);
    if (waiting) waiting.push(start);
    else this.#waiting.set(accountId, [start]);
    this.#time.note(this, true);
    this.#schedule();
  }

  /** Returns whether a piece of work may start at once; if so, the caller starts it. */
  begin(): boolean {
    this.#schedule();
    return this.#waiting.size === 0 && !this.#isSliceOver();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#sliceAtMs = undefined;
      this.#runSlice();
    });
  }

  #runSlice(): void {
    while (!this.#isSliceOver()) {
      const next = this.#waiting.entries().next();
      if (next.done) {
        // The next piece begins a slice of its own: this one would be over by then.
        this.#sliceAtMs = undefined;
        this.#time.note(this, false);
        return;
      }
      const [accountId, starts] = next.value;
      const start = starts.shift();
      // To the end of the line, if it has more.
      this.#waiting.delete(accountId);
      if (starts.length > 0) this.#waiting.set(accountId, starts);
      start?.();
    }
    if (this.#waiting.size > 0) this.#schedule();
    else this.#time.note(this, false);
  }

  #isSliceOver(): boolean {
    const nowMs = this.#now();
    if (this.#sliceAtMs === undefined) {
      // A frame that comes alone asks nobody for its share of the time.
      this.#sliceAtMs = nowMs;
      return false;
    }
    return nowMs - this.#sliceAtMs >= Math.min(SLICE_MS, this.#time.shareMs(this));
  }
}

/**
 * Has what a client sends handled in turn with what others send, and no more than a chunk of it in each turn of the event
 * loop. Node alone would read up to 2 MB of each client in one turn, which is tens of thousands of messages.
 * @param stream what `socket` reads
 * @param gate stops the reading
 */
export function readInTurns(
  socket: WebSocket,
  stream: Duplex,
  { turns, accountId }: { turns: Turns; accountId: number },
  gate: Reading,
): void {
  const handle = stream.listeners('data').at(-1) as (this: Duplex, chunk: Buffer) => void;
  const waiting: Buffer[] = [];
  const deliver = (chunk: Buffer) => {
    // ws takes nothing behind a close frame, or a fault.
    if (socket.readyState === socket.OPEN) handle.call(stream, chunk);
  };
  const deliverWaiting = () => {
    for (const chunk of waiting.splice(0)) deliver(chunk);
    gate.resume();
  };
  stream.off('data', handle);
  stream.on('data', (chunk: Buffer) => {
    if (waiting.length === 0 && turns.begin()) {
      deliver(chunk);
      if (chunk.length < FULL_CHUNK_BYTES || gate.isPaused) return;
      gate.pause();
      setImmediate(() => gate.resume());
      return;
    }
    gate.pause();
    if (waiting.push(chunk) === 1) turns.take(accountId, deliverWaiting);
  });
}
