import { createHistogram } from 'node:perf_hooks';

const RESOLUTION_MS = 1;
/** Minimum value that a histogram accepts, µs. */
const LEAST_US = 1;

/**
 * Distribution of the delay of an event that becomes due at a random moment. monitorEventLoopDelay() records one sample per turn of the
 * event loop, so that one long block is a single sample among many.
 */
export class LoopDelay {
  readonly #histogram = createHistogram();
  #lastMs: number | undefined;

  /** Starts the measurement anew; its timer does not keep the process alive. */
  start(): void {
    this.#histogram.reset();
    if (this.#lastMs === undefined) setInterval(() => this.#tick(), RESOLUTION_MS).unref();
    this.#lastMs = performance.now();
  }

  /**
   * Records the time between two ticks of the timer. During a block of d ms an event may become due at any moment, so delays of d, d −
   * 1, …, 1 ms are recorded.
   */
  note(elapsedMs: number): void {
    let delayMs = elapsedMs - RESOLUTION_MS;
    do {
      this.#histogram.record(Math.max(LEAST_US, Math.round(delayMs * 1000)));
      delayMs -= RESOLUTION_MS;
    } while (delayMs > 0);
  }

  /** 99th percentile of the delay, ms; 0 before the first delay is recorded. */
  get p99Ms(): number {
    return this.#histogram.count === 0 ? 0 : this.#histogram.percentile(99) / 1000;
  }

  #tick(): void {
    const nowMs = performance.now();
    this.note(nowMs - (this.#lastMs ?? nowMs));
    this.#lastMs = nowMs;
  }
}
