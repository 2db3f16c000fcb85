import { retryDelayMs } from './retry.ts';

/** Times at which a call that has failed is to be repeated, at growing intervals. In ms of any steady clock. */
export class Retries {
  /** Number of failures in a row. */
  #failures = 0;
  #dueMs = Infinity;

  failed(nowMs: number): void {
    this.#dueMs = nowMs + retryDelayMs(this.#failures);
    this.#failures += 1;
  }

  /** Notes that the call has succeeded, or that repeating it is of no use. */
  end(): void {
    this.#failures = 0;
    this.#dueMs = Infinity;
  }

  /** Returns true, once, when the call is to be repeated. */
  take(nowMs: number): boolean {
    if (nowMs < this.#dueMs) return false;
    this.#dueMs = Infinity;
    return true;
  }
}
