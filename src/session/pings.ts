import type { Timings } from '../../config/timings.ts';

const PAYLOAD_BYTES = 4;
const HEAD_BYTES = 2;
/** FIN and the opcode of a ping (RFC 6455 §5.2). */
const FINAL_PING = 0x89;
/** Maximum number of unanswered pings that are remembered. Beyond it only the heartbeat pings the client. */
const MAX_UNANSWERED = 32;
/** Minimum time between two pings, ms. */
const SHORTEST_INTERVAL_MS = 250;
/** Allowance for the jitter of a path, ms: a delay within it does not mean that the client does not read. */
const JITTER_MS = 100;
/** Longest round trip of a path, ms: a ping that takes longer was sent to a client that did not read. */
const LONGEST_TRIP_MS = 5000;
/** Time within which an answer that has arrived is read, ms, also after the event loop was blocked. */
const READ_WITHIN_MS = 40;

/**
 * Numbered pings to one client and their answers, which show how far the client has read, whatever the kernel buffers. A
 * pong carries the payload of its ping, and answers all pings before it (RFC 6455 §5.5.3). Nothing is known of a
 * client that has never answered one. Pure: the caller passes the time.
 */
export class Pings {
  readonly #lateAfterMs: number;
  /** Number of the next ping; starts at random, so that answers to another process are ignored. */
  #next = Math.floor(Math.random() * 2 ** 31);
  /** Sending times of unanswered pings, oldest first. */
  readonly #sentAtMs: number[] = [];
  /** True if the oldest unanswered ping was sent while no other was unanswered, so that it did not queue behind audio. */
  #isOldestAlone = false;
  #lastAtMs = -Infinity;
  #rttMs: number | undefined;
  /** Round trips of the last two pings that were sent alone. */
  #tripsMs: [number, number] | undefined;
  #checkAtMs = Infinity;
  /** Time at which the oldest ping was first found to be late. */
  #suspectedAtMs: number | undefined;
  #isStalled = false;
  /** True if a ping was sent after the last audio before the stall. */
  #isMarked = false;

  /** @param timings `unansweredMs`: age of an unanswered ping at which its client counts as not reading */
  constructor({ unansweredMs }: Pick<Timings['sessions'], 'unansweredMs'>) {
    this.#lateAfterMs = unansweredMs;
  }

  /** Time from which {@link checkStall} must be called, by `performance.now()`. Infinity while nothing is unanswered. */
  get checkAtMs(): number {
    return this.#checkAtMs;
  }

  /** True while the client is stalled: it left a ping unanswered for too long, and has not answered all of them since. */
  get isStalled(): boolean {
    return this.#isStalled;
  }

  /** Sending time of the last ping, by `performance.now()`. */
  get lastAtMs(): number {
    return this.#lastAtMs;
  }

  /** Round trip of the last answered ping, ms. */
  get rttMs(): number | undefined {
    return this.#rttMs;
  }

  /** Time after which sent audio may wait for the client, ms; undefined if none is known to wait. */
  get readUntilMs(): number | undefined {
    const [oldestAtMs] = this.#sentAtMs;
    return oldestAtMs === undefined || !this.#tripsMs ? undefined : oldestAtMs + this.#pathMs;
  }

  /** Returns true if another ping among audio frames is useful. */
  mayAsk(nowMs: number): boolean {
    const isSoon = nowMs - this.#lastAtMs < SHORTEST_INTERVAL_MS;
    return !isSoon && this.#sentAtMs.length < MAX_UNANSWERED;
  }

  /** Notes a ping that is sent now. @returns its payload */
  payload(nowMs: number): Buffer {
    const payload = Buffer.allocUnsafe(PAYLOAD_BYTES);
    payload.writeUInt32BE(this.#note(nowMs));
    return payload;
  }

  /** Notes a ping that is sent now. @returns its frame, and behind it `bytes` */
  frame(nowMs: number, bytes?: Buffer): Buffer {
    const frame = Buffer.allocUnsafe(HEAD_BYTES + PAYLOAD_BYTES + (bytes?.length ?? 0));
    frame[0] = FINAL_PING;
    frame[1] = PAYLOAD_BYTES;
    frame.writeUInt32BE(this.#note(nowMs), HEAD_BYTES);
    if (bytes) frame.set(bytes, HEAD_BYTES + PAYLOAD_BYTES);
    return frame;
  }

  /** Takes the payload of a pong. @returns true if that ends a stall: the client has read all that it was sent */
  answered(payload: Buffer, nowMs: number): boolean {
    const index = this.#indexOf(payload);
    const sentAtMs = this.#sentAtMs[index];
    if (sentAtMs === undefined) return false;
    this.#rttMs = nowMs - sentAtMs;
    if (this.#isOldestAlone || !this.#tripsMs) {
      this.#tripsMs = [this.#tripsMs?.[1] ?? this.#rttMs, this.#rttMs];
    }
    this.#isOldestAlone = false;
    this.#sentAtMs.splice(0, index + 1);
    this.#suspectedAtMs = undefined;
    if (this.#sentAtMs.length > 0) {
      if (!this.#isStalled) this.#checkAtMs = this.#lateAtMs();
      return false;
    }
    this.#checkAtMs = Infinity;
    const hasCaughtUp = this.#isStalled;
    this.#isStalled = false;
    return hasCaughtUp;
  }

  /**
   * Checks whether the client has stopped reading. To be called from {@link checkAtMs} on; it looks twice, because
   * an answer may have arrived that the gateway has not read yet.
   * @param isRead true while the gateway reads from the client
   */
  checkStall(nowMs: number, isRead: boolean): boolean {
    if (this.#isStalled) return true;
    if (isRead && this.#suspectedAtMs !== undefined) {
      this.#isStalled = true;
      this.#isMarked = false;
      this.#checkAtMs = -Infinity;
      return true;
    }
    this.#suspectedAtMs = isRead ? nowMs : undefined;
    this.#checkAtMs = nowMs + READ_WITHIN_MS;
    return false;
  }

  /**
   * Returns true once, if a ping must follow the last audio before a stall: when it is answered, no audio is in flight any more.
   */
  takeMark(nowMs: number): boolean {
    if (this.#isMarked || !this.mayAsk(nowMs)) return false;
    this.#isMarked = true;
    return true;
  }

  #note(nowMs: number): number {
    if (this.#sentAtMs.length === MAX_UNANSWERED) {
      this.#sentAtMs.shift();
      this.#isOldestAlone = false;
    }
    this.#lastAtMs = nowMs;
    if (this.#sentAtMs.push(nowMs) === 1) {
      this.#isOldestAlone = true;
      this.#checkAtMs = this.#lateAtMs();
    }
    const number = this.#next;
    this.#next += 1;
    return number;
  }

  /** Index of a ping among the unanswered ones; out of range if it is none of them. */
  #indexOf(payload: Buffer): number {
    if (payload.length !== PAYLOAD_BYTES) return -1;
    return this.#sentAtMs.length - (this.#next - payload.readUInt32BE());
  }

  /** Time from which the oldest unanswered ping is late. */
  #lateAtMs(): number {
    if (!this.#tripsMs) return Infinity;
    const pathMs = this.#pathMs;
    const isLongPath = pathMs + JITTER_MS > this.#lateAfterMs;
    return this.#sentAtMs[0]! + this.#lateAfterMs + (isLongPath ? pathMs : 0);
  }

  /** Round trip of a client that reads: the shorter of two, because one ping may have been delayed by a stall. */
  get #pathMs(): number {
    return this.#tripsMs ? Math.min(...this.#tripsMs, LONGEST_TRIP_MS) : 0;
  }
}
