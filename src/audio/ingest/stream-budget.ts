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

/** Returns the fault for a client whose stream could not be read: `fault` itself if clients may see it, otherwise `unsupported_audio`. */
export const unreadable = (codec: string, fault: unknown): PartylineError =>
  fault instanceof PartylineError
    ? fault
    : new PartylineError('unsupported_audio', `The bytes cannot be read as ${codec}.`, {
        cause: fault,
      });
