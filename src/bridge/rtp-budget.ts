import type { ReceivedRtp } from '../media/received-rtp.ts';
import { TokenBucket } from '../token-bucket.ts';

/** Seconds of audio that may come per second, and at once: after a stall of 8 s all of it does. */
const RATE = { perSecond: 1.25, burst: 10 };
const SAMPLES_PER_S = 48_000;
/**
 * Minimum duration that is charged for a packet, s. The shortest packets that browsers send, and that the answers of WHIP allow
 * (`minptime`), have 10 ms; shorter ones would multiply the work for each listener by up to four. A WebSocket peer of another node is
 * heard by up to three packets in 20 ms (`ShortPackets`).
 */
const MIN_PACKET_S = 0.008;
/** Maximum number of bytes of a second of audio: 600 kbit/s; encoders produce at most 510. */
const BYTES_PER_S = 75_000;
/** Seconds of audio in the bucket from which a sender is within its budget again. */
const RECOVERED_S = 2;

/** Length of a second in which the rate of a sender is judged, ms. */
const WINDOW_MS = 1000;
/**
 * Audio in a second from which a sender is fast, s. Nine such seconds in a row have 17.1 s, and after a stall of 8 s no more than
 * 17 s can come in them, at any rate.
 */
const FAST_S = 1.9;
/** Number of fast seconds in a row after which a sender must be told. */
const TOLD_SECONDS = 6;
/** Number of fast seconds in a row after which a sender is ended. */
const MAX_FAST_SECONDS = 9;

/** Consequences of a sender that is over its budget. */
export type RateEvents = {
  /** Called when the client must be told, once each time. */
  onWarned: () => void;
  /** Called once, when the sender has been over the budget for too long; its packets are ignored then. */
  onExceeded: () => void;
};

/** Verdict on a packet; `end`: the sender has been over its budget for too long. */
type Verdict = 'pass' | 'drop' | 'end';

/**
 * Budget of the packets of one peer, in seconds of audio, whose levels may have to be measured by decoding them. It bounds
 * their number, too, because each is charged as 8 ms at least, and their bytes: a packet is charged as the audio that
 * encoders produce in as many bytes at most, if it contains less. One that sends about twice as much as is played, second
 * after second, is ended before the budget is used up. Pure.
 */
export class RtpBudget {
  readonly #bucket: TokenBucket;
  /** Time over the budget after which the sender is ended. */
  readonly endAfterMs: number;
  #overSinceMs: number | undefined;
  #isTold = false;
  /** Time of the last charge of dropped packets. */
  #droppedAtMs = -Infinity;
  /** Beginning of the present second, audio in it, s, and number of fast seconds in a row before it. */
  #secondAtMs: number;
  #secondS = 0;
  #fastSeconds = 0;

  /** @param endAfterMs time over the budget after which the sender is ended */
  constructor(endAfterMs: number, nowMs: number) {
    this.endAfterMs = endAfterMs;
    this.#bucket = new TokenBucket(RATE, nowMs);
    this.#secondAtMs = nowMs;
  }

  /** Returns true if nothing of it is used, so that it equals a new one. */
  isFull(nowMs: number): boolean {
    return this.#bucket.isFull(nowMs);
  }

  /** True from a packet beyond the budget until the sender is within it again. */
  get isOver(): boolean {
    return this.#overSinceMs !== undefined;
  }

  /** Returns true once each time that the sender goes over its budget, or has been fast for some seconds. */
  takeWarning(): boolean {
    const isWarned = this.isOver || this.#fastSeconds >= TOLD_SECONDS;
    const isFirst = isWarned && !this.#isTold;
    this.#isTold = isWarned;
    return isFirst;
  }

  /**
   * Charges packets that have been received and dropped, as far as the budget has them: a sender does not have to wait for more. One that
   * comes back after a while, with budget again, is judged anew.
   * @returns true if the sender has been over it for too long
   */
  chargeDropped({ packets, bytes }: ReceivedRtp, nowMs: number): boolean {
    const costS = Math.max(packets * MIN_PACKET_S, bytes / BYTES_PER_S);
    const balanceS = this.#bucket.balance(nowMs);
    const isBack = nowMs - this.#droppedAtMs > this.endAfterMs;
    this.#droppedAtMs = nowMs;
    if (isBack && this.isOver && balanceS >= RECOVERED_S) {
      this.#overSinceMs = undefined;
      this.#isTold = false;
    }
    const leftS = balanceS - costS;
    this.#bucket.spend(Math.min(costS, Math.max(0, balanceS)), nowMs);
    // The balance has grown since the last charge, while these packets came: what is left counts.
    if (leftS >= RECOVERED_S) this.#overSinceMs = undefined;
    if (leftS >= 0) return false;
    this.#overSinceMs ??= nowMs;
    return nowMs - this.#overSinceMs >= this.endAfterMs;
  }

  /** Charges a packet; a dropped one costs nothing. @param samples its duration, samples at 48 kHz @param bytes its length */
  charge(samples: number, bytes: number, nowMs: number): Verdict {
    const costS = Math.max(MIN_PACKET_S, samples / SAMPLES_PER_S, bytes / BYTES_PER_S);
    this.#countSecond(costS, nowMs);
    if (this.#fastSeconds >= MAX_FAST_SECONDS) return 'end';
    const balanceS = this.#bucket.balance(nowMs);
    if (balanceS >= RECOVERED_S) this.#overSinceMs = undefined;
    if (balanceS >= costS) {
      this.#bucket.spend(costS, nowMs);
      return 'pass';
    }
    this.#overSinceMs ??= nowMs;
    return nowMs - this.#overSinceMs < this.endAfterMs ? 'drop' : 'end';
  }

  /** Counts a packet to its second. One second without packets, or with few, ends a row of fast ones. */
  #countSecond(costS: number, nowMs: number): void {
    const sinceMs = nowMs - this.#secondAtMs;
    if (sinceMs >= WINDOW_MS) {
      const isFast = this.#secondS >= (FAST_S * sinceMs) / WINDOW_MS;
      this.#fastSeconds = isFast ? this.#fastSeconds + 1 : 0;
      this.#secondAtMs = nowMs;
      this.#secondS = 0;
    }
    this.#secondS += costS;
  }
}
