/** Messages taken from the front before the array is shortened. */
const FORGET_MESSAGES = 64;
/** Added to the bytes of each message, so that messages of a few bytes are bounded in number, too. */
const OVERHEAD_BYTES = 64;

type QueuedMessage = { message: Buffer; atMs: number };

/** Messages in the order of arrival, with the time of each. Adding and removing cost the same for any length. Pure. */
export class MessageFifo {
  readonly #waiting: QueuedMessage[] = [];
  #first = 0;
  #bytes = 0;

  get isEmpty(): boolean {
    return this.length === 0;
  }

  get length(): number {
    return this.#waiting.length - this.#first;
  }

  /** Memory that all of them take, approximately. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Arrival time of the oldest message, ms. */
  get oldestAtMs(): number | undefined {
    return this.#waiting[this.#first]?.atMs;
  }

  push(message: Buffer, atMs: number): void {
    this.#waiting.push({ message, atMs });
    this.#bytes += message.length + OVERHEAD_BYTES;
  }

  shift(): QueuedMessage | undefined {
    const oldest = this.#waiting[this.#first];
    if (!oldest) return undefined;
    this.#first += 1;
    this.#bytes -= oldest.message.length + OVERHEAD_BYTES;
    if (this.isEmpty || this.#first >= FORGET_MESSAGES) {
      this.#waiting.splice(0, this.#first);
      this.#first = 0;
    }
    return oldest;
  }
}

export type FifoLimits = {
  /** Memory of all messages that wait. */
  maxBytes: number;
  /** Age at which a message is dropped. */
  maxAgeMs: number;
};

/** A FIFO that drops its oldest messages: those that do not fit, and those that are too old. Pure: the caller passes the time. */
export class BoundedFifo {
  readonly #limits: FifoLimits;
  #fifo = new MessageFifo();
  #dropped = 0;

  constructor(limits: FifoLimits) {
    this.#limits = limits;
  }

  get isEmpty(): boolean {
    return this.#fifo.isEmpty;
  }

  /** Time for which the oldest message has waited. */
  ageMs(nowMs: number): number {
    return nowMs - (this.#fifo.oldestAtMs ?? nowMs);
  }

  push(message: Buffer, nowMs: number): void {
    this.#fifo.push(message, nowMs);
    this.expire(nowMs);
  }

  /** The oldest message that is not too old. */
  shift(nowMs: number): Buffer | undefined {
    this.expire(nowMs);
    return this.#fifo.shift()?.message;
  }

  /** Drops all messages but the newest. */
  keepNewest(): void {
    while (this.#fifo.length > 1) this.#drop();
  }

  /** Number of messages that were dropped since the last call. */
  takeDropped(): number {
    const dropped = this.#dropped;
    this.#dropped = 0;
    return dropped;
  }

  /** Forgets all messages, and does not count them as dropped. */
  clear(): void {
    this.#fifo = new MessageFifo();
  }

  /** Drops messages that do not fit or are too old. */
  expire(nowMs: number): void {
    const { maxBytes, maxAgeMs } = this.#limits;
    while (this.#fifo.bytes > maxBytes || this.ageMs(nowMs) > maxAgeMs) this.#drop();
  }

  #drop(): void {
    this.#fifo.shift();
    this.#dropped += 1;
  }
}
