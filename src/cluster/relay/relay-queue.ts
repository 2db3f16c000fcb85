import { type FifoLimits, MessageFifo } from '../../message-fifo.ts';

/**
 * Frames that wait for a connection to another node. Frames of one owner stay in order; owners take turns, and when the queue
 * is full, the owner with the most bytes in it loses its oldest frame. Pure: the caller passes the time.
 */
export class RelayQueue<Owner> {
  readonly #limits: FifoLimits;
  /** Owners with frames; the first one is next. */
  readonly #lines = new Map<Owner, MessageFifo>();
  #bytes = 0;
  #dropped = 0;

  constructor(limits: FifoLimits) {
    this.#limits = limits;
  }

  get isEmpty(): boolean {
    return this.#lines.size === 0;
  }

  push(owner: Owner, frame: Buffer, nowMs: number): void {
    const line = this.#lines.get(owner) ?? new MessageFifo();
    this.#lines.set(owner, line);
    this.#bytes -= line.bytes;
    line.push(frame, nowMs);
    this.#bytes += line.bytes;
    while (this.#bytes > this.#limits.maxBytes) {
      this.#shift(...this.#longest());
      this.#dropped += 1;
    }
  }

  /** The next frame that is not too old. */
  take(nowMs: number): Buffer | undefined {
    for (;;) {
      const [next] = this.#lines;
      if (!next) return undefined;
      const { message, atMs } = this.#shift(...next);
      if (nowMs - atMs <= this.#limits.maxAgeMs) return message;
      this.#dropped += 1;
    }
  }

  /** Drops frames that are too old. */
  expire(nowMs: number): void {
    for (const [owner, line] of this.#lines) {
      while (nowMs - (line.oldestAtMs ?? nowMs) > this.#limits.maxAgeMs) {
        this.#shift(owner, line);
        this.#dropped += 1;
      }
    }
  }

  /** Number of frames dropped since the last call: too old, or the oldest of a full queue. */
  takeDropped(): number {
    const dropped = this.#dropped;
    this.#dropped = 0;
    return dropped;
  }

  clear(): void {
    this.#lines.clear();
    this.#bytes = 0;
  }

  /** Takes the oldest frame of an owner, whose next turn comes after those of all others. */
  #shift(owner: Owner, line: MessageFifo) {
    this.#bytes -= line.bytes;
    const oldest = line.shift()!;
    this.#bytes += line.bytes;
    this.#lines.delete(owner);
    if (!line.isEmpty) this.#lines.set(owner, line);
    return oldest;
  }

  #longest(): [Owner, MessageFifo] {
    let longest: [Owner, MessageFifo] | undefined;
    for (const entry of this.#lines) {
      if (!longest || entry[1].bytes > longest[1].bytes) longest = entry;
    }
    return longest!;
  }
}
