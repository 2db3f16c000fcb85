import { retryDelayMs } from './retry.ts';

/** Schedules attempts of an action that failed, at intervals that grow with each failure. Times are ms of one monotonic clock. */
export class Retries {
  /** Number of failures in a row. */
  #failures = 0;
  #dueMs = Infinity;

  /** Notes a failure. */
  failed(nowMs: number): void {
    this.#dueMs = nowMs + retryDelayMs(this.#failures);
    this.#failures += 1;
  }

  /** Notes a success, or that no other attempt is to be made. */
  end(): void {
    this.#failures = 0;
    this.#dueMs = Infinity;
  }

  /** Returns true once when an attempt is due; the caller then makes it, and calls {@link failed} or {@link end}. */
  takeDue(nowMs: number): boolean {
    if (nowMs < this.#dueMs) return false;
    this.#dueMs = Infinity;
    return true;
  }
}
