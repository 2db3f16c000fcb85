import type { Timings } from '../../config/timings.ts';
import { PartylineError } from '../protocol/errors.ts';
import { errorMessage } from '../protocol/messages.ts';
import { TokenBucket } from '../token-bucket.ts';
import type { ClientNotifier } from './client-notifier.ts';
import type { ReadControl } from './read-gate.ts';

/** Rate of pings and pongs of one client: it answers a few pings a second, and may send all its pending ones after a stall. */
const RATE = { perSecond: 50, burst: 1000 };
/** Number of pings and pongs that must be left for a client to be within its budget again. */
const RECOVERED = 100;
/** Time for which a client over its budget is not read, ms. */
const PAUSE_MS = 1000;

/** Limit of the pings and pongs of one client: beyond it the client is read more slowly, told, and closed if it continues. */
export class ControlLimit {
  readonly #reading: ReadControl;
  readonly #client: ClientNotifier;
  readonly #closeAfterMs: number;
  readonly #bucket = new TokenBucket(RATE, performance.now());
  #overSinceMs: number | undefined;
  /** Timer that runs while the client is not read. */
  #timer: NodeJS.Timeout | undefined;

  constructor(
    reading: ReadControl,
    { closeAfterMs }: Pick<Timings['budgets'], 'closeAfterMs'>,
    client: ClientNotifier,
  ) {
    this.#reading = reading;
    this.#closeAfterMs = closeAfterMs;
    this.#client = client;
  }

  /** Notes a ping or a pong of the client. */
  receive(nowMs: number): void {
    // The rest of what had been read, perhaps thousands, costs nothing more.
    if (this.#timer) return;
    const left = this.#bucket.take(1, nowMs);
    if (left >= RECOVERED) this.#overSinceMs = undefined;
    if (left >= 0) return;
    if (this.#overSinceMs === undefined) {
      this.#overSinceMs = nowMs;
      const sentence = 'Too many pings and pongs; they are read more slowly.';
      this.#client.notify(errorMessage(this.#rateLimited(sentence, nowMs)));
    } else if (nowMs - this.#overSinceMs >= this.#closeAfterMs) {
      this.#client.fail(this.#rateLimited('The client keeps sending pings and pongs.', nowMs));
      return;
    }
    this.#reading.pause();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#reading.resume();
    }, PAUSE_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #rateLimited(sentence: string, nowMs: number): PartylineError {
    const retryAfterMs = Math.ceil(this.#bucket.waitMs(RATE.burst, nowMs));
    return new PartylineError('rate_limited', sentence, { retryAfterMs });
  }
}
