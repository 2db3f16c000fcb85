import type { Timings } from '../../config/timings.ts';

const PAYLOAD_BYTES = 4;
const HEAD_BYTES = 2;
/** FIN and the opcode of a ping (RFC 6455 §5.2). */
const FINAL_PING = 0x89;
/** Unanswered pings that are remembered. A client that leaves as many unanswered is asked by the heartbeat alone. */
const MAX_UNANSWERED = 32;
/** At most four pings a second. */
const SHORTEST_INTERVAL_MS = 250;
/** Jitter that a path may have without being taken for a client that does not read. */
const JITTER_MS = 100;
/** No path takes longer: a ping that does was sent to a client that did not read. */
const LONGEST_TRIP_MS = 5000;
/** An answer that has arrived is read within this time, also after the event loop was blocked. */
const READ_WITHIN_MS = 40;

/**
 * Numbered pings to one client and their answers: they tell how far the client has read, whatever the kernel holds. A
 * pong carries the payload of its ping, and answers all pings before it (RFC 6455 §5.5.3). Nothing can be told of a
 * client that has never answered one. Pure: the caller passes the time.
 */
export class Pings {
  readonly #lateAfterMs: number;
  /** Number of the next ping; begins anywhere, so that answers to another process mean nothing. */
  #next = Math.floor(Math.random() * 2 ** 31);
  /** When each unanswered ping was sent, oldest first. */
  readonly #sentAtMs: number[] = [];
  /** The oldest unanswered ping was sent while no other was unanswered: it did not queue behind sound. */
  #isOldestAlone = false;
  #lastAtMs = -Infinity;
  #rttMs: number | undefined;
  /** How long the last two answered pings took that were sent alone. */
  #tripsMs: [number, number] | undefined;
  #checkAtMs = Infinity;
  /** When the oldest ping was first found to be late. */
  #suspectedAtMs: number | undefined;
  #isStalled = false;
  /** A ping follows the last sound before the stall. */
  #isMarked = false;

  /** @param timings `unansweredMs`: age of an unanswered ping at which its client counts as not reading */
  constructor({ unansweredMs }: Pick<Timings['sessions'], 'unansweredMs'>) {
    this.#lateAfterMs = unansweredMs;
  }

  /** From this time on {@link checkStall} is to be asked, ms. Infinity while nothing is unanswered. */
  get checkAtMs(): number {
    return this.#checkAtMs;
  }

  /** The client has left a ping unanswered for too long, and not answered all of them since. */
  get isStalled(): boolean {
    return this.#isStalled;
  }

  /** When the last ping was sent, ms. */
  get lastAtMs(): number {
    return this.#lastAtMs;
  }

  /** How long the ping took that was answered last, ms. */
  get rttMs(): number | undefined {
    return this.#rttMs;
  }

  /** Sound that was sent after this time, ms, may wait for the client; undefined if none is known to. */
  get readUntilMs(): number | undefined {
    const [oldestAtMs] = this.#sentAtMs;
    return oldestAtMs === undefined || !this.#tripsMs ? undefined : oldestAtMs + this.#pathMs;
  }

  /** Returns whether another ping among the sound is of use. */
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
   * Finds out whether the client has stopped reading. To be asked from {@link checkAtMs} on; it takes a second look, because
   * an answer may have arrived that the gateway has not read yet.
   * @param isRead the gateway reads what the client sends
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
   * Returns whether a ping is to follow the last sound before a stall, which it is once: when it is answered, no sound is
   * under way any more.
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

  /** Place of a ping among the unanswered ones; negative, or beyond them, if it is none of them. */
  #indexOf(payload: Buffer): number {
    if (payload.length !== PAYLOAD_BYTES) return -1;
    return this.#sentAtMs.length - (this.#next - payload.readUInt32BE());
  }

  /** When the oldest unanswered ping is late. */
  #lateAtMs(): number {
    if (!this.#tripsMs) return Infinity;
    const pathMs = this.#pathMs;
    const isLongPath = pathMs + JITTER_MS > this.#lateAfterMs;
    return this.#sentAtMs[0]! + this.#lateAfterMs + (isLongPath ? pathMs : 0);
  }

  /** Round trip of a client that reads: the shorter of two, because one ping may have met a stall. */
  get #pathMs(): number {
    return this.#tripsMs ? Math.min(...this.#tripsMs, LONGEST_TRIP_MS) : 0;
  }
}
