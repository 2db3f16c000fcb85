import { createHistogram } from 'node:perf_hooks';

const RESOLUTION_MS = 1;
/** A histogram has no 0. */
const LEAST_US = 1;

/**
 * Delays of an event loop, each weighted by its duration: the delay that something has which becomes due at a random moment. A histogram
 * of one sample a turn, as monitorEventLoopDelay has, hides a loop that is blocked rarely and for long: such a turn is one of many.
 */
export class LoopDelay {
  readonly #histogram = createHistogram();
  #lastMs: number | undefined;

  /** Measures from here on; the timer does not keep the process alive. */
  start(): void {
    this.#histogram.reset();
    if (this.#lastMs === undefined) setInterval(() => this.#tick(), RESOLUTION_MS).unref();
    this.#lastMs = performance.now();
  }

  /** Notes the time between two turns of the timer: a delay of d ms is that of d, d − 1, … ms for each millisecond that it lasted. */
  note(elapsedMs: number): void {
    let delayMs = elapsedMs - RESOLUTION_MS;
    do {
      this.#histogram.record(Math.max(LEAST_US, Math.round(delayMs * 1000)));
      delayMs -= RESOLUTION_MS;
    } while (delayMs > 0);
  }

  /** The 99th percentile; 0 before the first note. */
  get p99Ms(): number {
    return this.#histogram.count === 0 ? 0 : this.#histogram.percentile(99) / 1000;
  }

  #tick(): void {
    const nowMs = performance.now();
    this.note(nowMs - (this.#lastMs ?? nowMs));
    this.#lastMs = nowMs;
  }
}
