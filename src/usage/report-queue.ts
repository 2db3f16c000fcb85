import { PartylineError } from '../protocol/errors.ts';

/** Maximum number of reports of an account that are read or wait. */
const MAX_REPORTS = 4;

/** Serializes the reports of an account. */
export class ReportQueue {
  readonly #accounts = new Map<number, { reports: number; last: Promise<void> }>();
  readonly #retryAfterMs: number;

  /** @param retryAfterMs delay told to an account that has too many reports, ms */
  constructor(retryAfterMs: number) {
    this.#retryAfterMs = retryAfterMs;
  }

  /**
   * Waits until a report may be read.
   * @returns a function that ends the turn; further calls have no effect
   * @throws {PartylineError} `rate_limited` if too many wait already
   */
  async take(accountId: number): Promise<() => void> {
    const queue = this.#accounts.get(accountId) ?? { reports: 0, last: Promise.resolve() };
    if (queue.reports >= MAX_REPORTS) {
      const message = `At most ${MAX_REPORTS} usage reports of an account at a time.`;
      throw new PartylineError('rate_limited', message, { retryAfterMs: this.#retryAfterMs });
    }
    queue.reports += 1;
    this.#accounts.set(accountId, queue);
    const { promise, resolve } = Promise.withResolvers<void>();
    const before = queue.last;
    queue.last = promise;
    await before;
    let hasEnded = false;
    return () => {
      if (hasEnded) return;
      hasEnded = true;
      queue.reports -= 1;
      if (queue.reports === 0) this.#accounts.delete(accountId);
      resolve();
    };
  }
}
