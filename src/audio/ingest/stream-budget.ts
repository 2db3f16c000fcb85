import { PartylineError } from '../../protocol/errors.ts';
import { type Rate, TokenBucket } from '../../token-bucket.ts';

/** Maximum number of recordings that begin per second, and at once: some recorders begin a new one for each chunk. */
export const RECORDINGS: Rate = { perSecond: 5, burst: 20 };
/** Maximum number of heads per second, and at once, of streams whose decoder is reopened for each: this takes 10 ms of the decoder thread. */
export const HEADS: Rate = { perSecond: 0.5, burst: 5 };

/** Budget for the work that one stream may cause: full at the first {@link spend}. */
export class StreamBudget {
  readonly #rate: Rate;
  readonly #message: string;
  #bucket: TokenBucket | undefined;

  /** @param message text of the error to the client when the budget is exceeded */
  constructor(rate: Rate, message: string) {
    this.#rate = rate;
    this.#message = message;
  }

  /** Counts one recording or head. @throws {PartylineError} `rate_limited` if the budget is exceeded */
  spend(nowMs: number): void {
    this.#bucket ??= new TokenBucket(this.#rate, nowMs);
    const retryAfterMs = Math.ceil(this.#bucket.waitMs(1, nowMs));
    if (retryAfterMs > 0) {
      throw new PartylineError('rate_limited', this.#message, { retryAfterMs });
    }
    this.#bucket.spend(1, nowMs);
  }
}

/**
 * Maximum seconds of samples per second, and at once, that are encoded for one client, whatever its format was thought to be when they
 * came: more than the budget of its messages lets through in a known format (10 s, and a debt of 1 s).
 */
const SAMPLES: Rate = { perSecond: 1.25, burst: 12 };

/** Budget of the samples of one client, in seconds, over all its formats: messages that come before the format is known may hold minutes of it. */
export class SampleBudget {
  #bucket: TokenBucket | undefined;

  /** Charges a message. @returns false if the budget does not cover it, which costs nothing: it must not be encoded */
  admit(bytes: number, bytesPerSecond: number, atMs: number): boolean {
    this.#bucket ??= new TokenBucket(SAMPLES, atMs);
    return this.#bucket.take(bytes / bytesPerSecond, atMs) >= 0;
  }
}

/** Returns the fault for a client whose stream could not be read: `fault` itself if clients may see it, otherwise `unsupported_audio`. */
export const unreadable = (codec: string, fault: unknown): PartylineError =>
  fault instanceof PartylineError
    ? fault
    : new PartylineError('unsupported_audio', `The bytes cannot be read as ${codec}.`, {
        cause: fault,
      });
