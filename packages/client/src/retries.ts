import { retryDelayMs } from './retry.ts';

/** Decides when something that failed is to be tried again, at growing intervals. All times: ms of one monotonic clock. */
export class Retries {
  /** Number of failures in a row. */
  #failures = 0;
  #dueMs = Infinity;

  /** Notes a failure. */
  failed(nowMs: number): void {
    this.#dueMs = nowMs + retryDelayMs(this.#failures);
    this.#failures += 1;
  }

  /** Notes a success, or that another attempt is of no use. */
  end(): void {
    this.#failures = 0;
    this.#dueMs = Infinity;
  }

  /** Returns true once when the time has come; the caller then tries again, and reports `failed` or `end`. */
  takeDue(nowMs: number): boolean {
    if (nowMs < this.#dueMs) return false;
    this.#dueMs = Infinity;
    return true;
  }
}
