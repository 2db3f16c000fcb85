import type { Timings } from '../../config/timings.ts';
import { isCompressed, isContainer, type InputFormat } from '../audio/format.ts';
import { frameBytesOf } from '../audio/samples.ts';
import { TokenBucket } from '../token-bucket.ts';

/** Maximum number of bytes per second of a format: Opus at 600 kbit/s, containers with their overhead, the widest samples. */
const OPUS_BYTES_PER_S = 75_000;
const CONTAINER_BYTES_PER_S = 100_000;
const UNKNOWN_BYTES_PER_S = 384_000;
/**
 * MP3 at 320 kbit/s and tags; Vorbis at its best quality; AAC of two channels at its most, in a file or not; FLAC of two
 * channels of 24 bits at 96 kHz that cannot be compressed.
 */
const COMPRESSED_BYTES_PER_S = {
  mp3: 60_000,
  ogg_vorbis: 100_000,
  aac_adts: 80_000,
  mp4_aac: 90_000,
  flac: 600_000,
  ogg_flac: 600_000,
};
/** Samples in files may be wider than bare ones: two channels of 24 bits at 192 kHz. */
const MAX_SAMPLE_BYTES_PER_S = 1_152_000;
/** Maximum number of messages per second of audio: somewhat more than a sender of one every 2 ms needs. */
const MESSAGES_PER_S = 600;
/** Rate of the budget, in seconds of audio per second, and its maximum balance: enough for all audio of a stall of 8 s, sent at once. */
const RATE = { perSecond: 1.25, burst: 10 };
/** Debt, in seconds of audio, beyond which messages that have been read already are dropped. */
const MAX_DEBT_S = 1;
/** Balance from which a client is within its budget again, s. */
const RECOVERED_S = 2;
/** Balance from which a paused client is read again, s. */
const READABLE_S = 0.25;
/** Maximum audio that is charged in one step, s, while the balance stays above {@link RECOVERED_S}. */
const CHARGED_AT_ONCE_S = 0.25;
/** Maximum time for which a client is not read, ms: its pongs must be seen. */
const MAX_WAIT_MS = 1000;

/** Returns the maximum number of bytes per second of audio. @param format undefined while it is unknown */
export function bytesPerSecondOf(format: InputFormat | undefined): number {
  if (!format || format.codec === 'opaque') return UNKNOWN_BYTES_PER_S;
  if (format.codec === 'opus') return OPUS_BYTES_PER_S;
  if (isContainer(format)) return CONTAINER_BYTES_PER_S;
  if (isCompressed(format)) return COMPRESSED_BYTES_PER_S[format.codec];
  const samples = format.codec === 'wav' ? format.inside : format;
  if (!samples) return UNKNOWN_BYTES_PER_S;
  return Math.min(samples.rateHz * frameBytesOf(samples), MAX_SAMPLE_BYTES_PER_S);
}

/** Excess of a client over its budget: it is not read for `waitMs`. */
export type Overdraft = {
  waitMs: number;
  /** Time until the whole budget is available again, ms. */
  retryAfterMs: number;
  /** True for the first excess in a row: the client must be told. */
  isFirst: boolean;
  /** True if the excess has lasted too long: the client must be closed. */
  isLast: boolean;
  /** True if the message must be dropped. */
  isRefused: boolean;
};

/**
 * Budget of the binary messages of one connection, in seconds of audio of its format. It bounds bytes and
 * messages, whatever they contain; audio ahead of time is judged by `FlowWatch`. Pure: the caller passes the
 * time.
 */
export class AudioBudget {
  readonly #bucket: TokenBucket;
  readonly #closeAfterMs: number;
  #overSinceMs: number | undefined;
  /** Audio that was received but is not charged yet, s. */
  #unchargedS = 0;
  /** Audio that may still be received before the next charge, s. */
  #spareS = 0;

  constructor({ closeAfterMs }: Pick<Timings['budgets'], 'closeAfterMs'>, nowMs: number) {
    this.#bucket = new TokenBucket(RATE, nowMs);
    this.#closeAfterMs = closeAfterMs;
  }

  /**
   * Charges a message.
   * @param bytesPerSecond maximum of the client's format ({@link bytesPerSecondOf})
   * @returns undefined if the client is within its budget
   */
  charge(bytes: number, bytesPerSecond: number, nowMs: number): Overdraft | undefined {
    const costS = Math.max(bytes / bytesPerSecond, 1 / MESSAGES_PER_S);
    if (costS <= this.#spareS) {
      this.#spareS -= costS;
      this.#unchargedS += costS;
      return undefined;
    }
    if (this.#unchargedS > 0) this.#bucket.spend(this.#unchargedS, nowMs);
    this.#unchargedS = 0;
    this.#spareS = 0;
    const before = this.#bucket.balance(nowMs);
    if (before >= RECOVERED_S) this.#overSinceMs = undefined;
    const isRefused = before < -MAX_DEBT_S;
    // A dropped message costs nothing; otherwise the debt would be unbounded.
    if (!isRefused) this.#bucket.spend(costS, nowMs);
    const left = this.#bucket.balance(nowMs);
    if (!isRefused && left >= 0) {
      this.#spareS = Math.min(CHARGED_AT_ONCE_S, left - RECOVERED_S);
      return undefined;
    }
    const isFirst = this.#overSinceMs === undefined;
    this.#overSinceMs ??= nowMs;
    return {
      waitMs: Math.min(this.#bucket.waitMs(READABLE_S, nowMs), MAX_WAIT_MS),
      retryAfterMs: Math.ceil(this.#bucket.waitMs(RATE.burst, nowMs)),
      isFirst,
      isLast: nowMs - this.#overSinceMs >= this.#closeAfterMs,
      isRefused,
    };
  }
}
