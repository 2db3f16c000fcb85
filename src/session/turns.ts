import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { type LoopTime, loopTime } from '../loop-time.ts';
import type { ReadControl } from './read-gate.ts';

/**
 * Turns of clients in the event loop, in three parts: {@link FairScheduler} decides whose work runs next, {@link readInTurns} reads
 * WebSockets by it, and {@link readIntoSharedBuffer} gives these reads one buffer. They share a file because every frame enters
 * them all, and the number of files that a frame enters is limited (`test/integration/frame-path.test.ts`).
 */

/** Maximum slice of work before the event loop handles other events, such as audio, ms; shorter while other owners work in slices, too. */
const SLICE_MS = 4;

/**
 * Maximum length of one read of TCP, and of a TLS record, bytes: behind a chunk of this length, more data probably waits in the kernel.
 * A chunk is handled in one piece, however many messages it has: reads of 64 KB, full of messages of three bytes, would take 60 ms
 * each.
 */
const FULL_CHUNK_BYTES = 16 * 1024;

/**
 * Schedules pieces of work in the event loop: accounts take turns, and no more than a slice of time is used
 * at once. A piece that comes while none waits starts at once.
 */
export class FairScheduler {
  /** Waiting pieces by account, in the order of the turns of the accounts; no list is empty. */
  readonly #waiting = new Map<number, (() => void)[]>();
  /** Time at which the first piece started in this turn of the event loop. */
  #sliceAtMs: number | undefined;
  /** Turn of the event loop in which the last slice began. */
  #turn = 0;
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

  /** Runs a piece of work when its turn comes; settles like the work. */
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

  /** Calls `start`, which must not throw, when the account's turn comes. */
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

  /** Returns true if a piece of work may start at once; the caller then starts it. */
  begin(): boolean {
    if (this.#waiting.size > 0) return false;
    if (performance.nodeTiming.uvMetricsInfo.loopCount !== this.#turn) this.#beginSlice();
    return !this.isSliceOver();
  }

  #beginSlice(): void {
    this.#turn = performance.nodeTiming.uvMetricsInfo.loopCount;
    this.#sliceAtMs = undefined;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#beginSlice();
      this.#runSlice();
    });
  }

  #runSlice(): void {
    while (!this.isSliceOver()) {
      const next = this.#waiting.entries().next();
      if (next.done) {
        // The next piece begins a new slice: the time of this one will have passed by then.
        this.#sliceAtMs = undefined;
        this.#time.note(this, false);
        return;
      }
      const [accountId, starts] = next.value;
      const start = starts.shift();
      // An account with more work goes to the end of the line.
      this.#waiting.delete(accountId);
      if (starts.length > 0) this.#waiting.set(accountId, starts);
      start?.();
    }
    if (this.#waiting.size > 0) this.#schedule();
    else this.#time.note(this, false);
  }

  /** Returns true if the slice is over: work that can be divided then leaves the rest for the account's next turn. */
  isSliceOver(): boolean {
    const nowMs = this.#now();
    if (this.#sliceAtMs === undefined) {
      // The first piece of a slice starts at once, whatever the share of the time is.
      this.#sliceAtMs = nowMs;
      return false;
    }
    return nowMs - this.#sliceAtMs >= Math.min(SLICE_MS, this.#time.shareMs(this));
  }
}

/** Maximum number of bytes that are handled in one client's turn. */
const TURN_BYTES = 64 * 1024;

/**
 * Handles a client's data in turn with that of others: in each turn of the event loop, the bytes of one read of TCP, or up to about
 * {@link TURN_BYTES} if they had to wait. By default, Node reads up to 2 MB of each client in one turn: tens of thousands of messages.
 * @param stream stream from which `socket` reads
 * @param gate pauses the reading
 * @returns a function that handles all data received so far
 */
export function readInTurns(
  socket: WebSocket,
  stream: Duplex,
  { turns, accountId }: { turns: FairScheduler; accountId: number },
  gate: ReadControl,
): () => void {
  const handle = stream.listeners('data').at(-1) as (this: Duplex, chunk: Buffer) => void;
  let waiting: Buffer[] = [];
  let isTurn = false;
  const deliver = (chunk: Buffer) => {
    // ws ignores data after a close frame or a fault.
    if (socket.readyState === socket.OPEN) handle.call(stream, chunk);
  };
  const deliverWaiting = () => {
    const chunks = waiting;
    waiting = [];
    let bytesLeft = TURN_BYTES;
    for (const chunk of chunks) {
      deliver(chunk);
      bytesLeft -= chunk.length;
    }
    // If each chunk that arrived meanwhile waited for a turn of its own, a client would be read
    // more slowly than it sends.
    isTurn = true;
    while (bytesLeft > 0 && stream.readableLength > 0 && !turns.isSliceOver()) {
      const bytes = Math.min(stream.readableLength, bytesLeft, FULL_CHUNK_BYTES);
      bytesLeft -= bytes;
      stream.read(bytes);
    }
    isTurn = false;
    gate.resume();
  };
  const onData = (chunk: Buffer) => {
    if (isTurn || (waiting.length === 0 && turns.begin())) {
      deliver(chunk);
      if (isTurn || chunk.length < FULL_CHUNK_BYTES || gate.isPaused) return;
      gate.pause();
      setImmediate(() => gate.resume());
      return;
    }
    gate.pause();
    if (waiting.push(chunk) === 1) turns.take(accountId, deliverWaiting);
  };
  stream.off('data', handle);
  stream.on('data', onData);
  // Drops the data that a paused stream still holds when its connection breaks: ws would parse it
  // at once, up to 64 KB for each of hundreds of clients that vanish together.
  stream.prependListener('close', () => {
    stream.off('data', onData);
    while (stream.read() !== null);
  });
  readIntoSharedBuffer(stream as Socket);
  return () => {
    for (const chunk of waiting) deliver(chunk);
    waiting = [];
    isTurn = true;
    while (stream.read() !== null);
    isTurn = false;
  };
}

/** Buffer that all connections read into, one after the other: the kernel fills it, and the listener copies it, in one call. */
const READ = Buffer.allocUnsafeSlow(FULL_CHUNK_BYTES);
/** Size of the piece of memory that copies of short reads share: a copy that is kept keeps no more than that, bytes. */
const PIECE_BYTES = 1024;
/** Maximum length of a read whose copy shares its memory with others, bytes. */
const MAX_SHORT_BYTES = PIECE_BYTES / 4;

let piece = Buffer.alloc(0);
let usedBytes = 0;

/**
 * Undocumented properties of Node's handle of a connection. Node uses them for the option `onread` of `net.Socket`, which cannot be
 * set for accepted connections. A test compares connections that are read with and without them.
 */
type Handle = {
  readonly bytesRead: number;
  /** False after {@link readStop}; Node's socket sets it back. */
  reading: boolean;
  /** Called after each read; must return nothing. */
  onread: (data?: ArrayBuffer) => void;
  readStop(): number;
  useUserBuffer?(buffer: Buffer): void;
};

/**
 * Reads a connection into the buffer that all connections share. Node would allocate 64 KB for each read and shorten them, which
 * costs more than all other work on a short frame (decision 222). Encrypted connections are not changed.
 */
function readIntoSharedBuffer(stream: Socket): void {
  // oxlint-disable-next-line no-underscore-dangle -- its name
  const { _handle: handle } = stream as unknown as { _handle?: Handle | null };
  if ('encrypted' in stream || !handle?.useUserBuffer) return;
  const { onread: onEnd } = handle;
  let bytesBefore = handle.bytesRead;
  handle.useUserBuffer(READ);
  handle.onread = (data) => {
    const { bytesRead } = handle;
    const bytes = bytesRead - bytesBefore;
    bytesBefore = bytesRead;
    if (bytes === 0 || stream.destroyed) {
      onEnd.call(handle, data);
      return;
    }
    // Does what `push` does while nothing waits, but does not look for more data.
    if (stream.readableFlowing && stream.readableLength === 0) {
      if (stream.emit('data', copyOfRead(bytes, MAX_SHORT_BYTES))) return;
    }
    // A chunk that waits in the stream has memory of its own.
    if (stream.push(copyOfRead(bytes, 0))) return;
    // After `push`, because `push` may make the stream start reading again.
    handle.reading = false;
    handle.readStop();
  };
}

/** @param maxSharedBytes maximum length of a copy that shares its memory with others */
function copyOfRead(bytes: number, maxSharedBytes: number): Buffer {
  let copy: Buffer;
  if (bytes > maxSharedBytes) {
    copy = Buffer.allocUnsafeSlow(bytes);
  } else {
    if (usedBytes + bytes > piece.length) {
      piece = Buffer.allocUnsafeSlow(PIECE_BYTES);
      usedBytes = 0;
    }
    copy = piece.subarray(usedBytes, usedBytes + bytes);
    // 16-bit samples are read in place.
    usedBytes = (usedBytes + bytes + 1) & ~1;
  }
  READ.copy(copy, 0, 0, bytes);
  return copy;
}
