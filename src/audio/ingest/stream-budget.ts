import { PartylineError } from '../../protocol/errors.ts';
import { type Rate, TokenBucket } from '../../token-bucket.ts';

/**
 * Maximum number of recordings that begin per second, and at once, where a beginning opens a reader alone: some recorders begin a new one for
 * each chunk of 20 ms, and after a stall of 8 s all of these come at once.
 */
export const RECORDINGS: Rate = { perSecond: 60, burst: 500 };
/** Maximum number of changes of format per second, and at once, that open encoders, resamplers or decoders. */
export const CHANGES: Rate = { perSecond: 5, burst: 20 };
/** Maximum number of heads per second, and at once, of streams whose decoder is reopened for each: this takes 10 ms of the decoder thread. */
export const HEADS: Rate = { perSecond: 1.5, burst: 12 };

/** Text of the error to a client whose recordings exceed their budget. */
export const TOO_MANY_RECORDINGS = 'Recordings begin too often.';

/** Part of the burst that must be left for a client to be within its budget again. */
const RECOVERED = 1 / 5;
/** Part of the burst from which a client that was not read is read again; at least one recording. */
const READABLE = 1 / 50;
/** Maximum time for which a client is not read, ms: its pongs must be seen. */
const MAX_WAIT_MS = 1000;
/** Time over the budget after which a stream is refused, ms. */
const MAX_OVER_MS = 5000;

/** Excess of a client over the budget of a stream: it is not read for `waitMs`. */
export type StreamOverdraft = {
  waitMs: number;
  /** Fault that the client must be told: present for the first excess in a row. */
  fault: PartylineError | undefined;
};

/** Budget for the work that one stream may cause: full at the first {@link spend}. */
export class StreamBudget {
  readonly #rate: Rate;
  readonly #message: string;
  readonly #onOver: ((overdraft: StreamOverdraft) => void) | undefined;
  readonly #maxDebt: number;
  #bucket: TokenBucket | undefined;
  #overSinceMs: number | undefined;

  /**
   * @param message text of the error to the client when the budget is exceeded
   * @param onOver called for each recording, head or packet over the budget, which is read all the same; absent if the first one is refused
   * @param maxDebt number of those over the budget after which the next one is refused
   */
  constructor(
    rate: Rate,
    message: string,
    onOver?: (overdraft: StreamOverdraft) => void,
    maxDebt = rate.burst,
  ) {
    this.#rate = rate;
    this.#message = message;
    this.#onOver = onOver;
    this.#maxDebt = maxDebt;
  }

  /**
   * Counts one recording, head or packet.
   * @throws {PartylineError} `rate_limited` if the budget has been exceeded for 5 s, or by more than `maxDebt`
   */
  spend(nowMs: number): void {
    const { burst } = this.#rate;
    this.#bucket ??= new TokenBucket(this.#rate, nowMs);
    const before = this.#bucket.balance(nowMs);
    if (before >= burst * RECOVERED) this.#overSinceMs = undefined;
    if (before >= 1) {
      this.#bucket.spend(1, nowMs);
      return;
    }
    const retryAfterMs = Math.ceil(this.#bucket.waitMs(1, nowMs));
    const isFirst = this.#overSinceMs === undefined;
    this.#overSinceMs ??= nowMs;
    const isLast = nowMs - this.#overSinceMs >= MAX_OVER_MS || before < -this.#maxDebt;
    const openFault = () => new PartylineError('rate_limited', this.#message, { retryAfterMs });
    if (isLast || !this.#onOver) throw openFault();
    this.#bucket.spend(1, nowMs);
    const readable = Math.max(1, burst * READABLE);
    const waitMs = Math.min(this.#bucket.waitMs(readable, nowMs), MAX_WAIT_MS);
    this.#onOver({ waitMs, fault: isFirst ? openFault() : undefined });
  }
}

/** Returns the fault for a client whose stream could not be read: `fault` itself if clients may see it, otherwise `unsupported_audio`. */
export const unreadable = (codec: string, fault: unknown): PartylineError =>
  fault instanceof PartylineError
    ? fault
    : new PartylineError('unsupported_audio', `The bytes cannot be read as ${codec}.`, {
        cause: fault,
      });
