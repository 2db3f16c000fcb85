import { createHistogram } from 'node:perf_hooks';
import { percentilesOf } from './percentiles.ts';

export const FRAME_MS = 20;
/** Length of a slot of the 20 ms: senders have different slots, so that they do not all send at the same instant. */
const SLOT_MS = 2;
export const SLOTS = FRAME_MS / SLOT_MS;

/** Calls many senders once every 20 ms each, in their slots, by one timer. */
export class Pacing {
  /** True while the lateness of the calls is recorded. */
  isCounting = false;
  readonly #slots: (() => void)[][] = Array.from({ length: SLOTS }, () => []);
  readonly #late = createHistogram();
  #startMs = 0;
  #nextSlot = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param slot any whole number; numbers wrap around */
  add(slot: number, send: () => void): void {
    this.#slots[slot % SLOTS]!.push(send);
  }

  /** Begins or continues. */
  start(): void {
    this.#startMs = performance.now();
    this.#nextSlot = 0;
    this.#tick();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  get lateP99Ms(): number {
    return percentilesOf(this.#late)?.p99Ms ?? 0;
  }

  readonly #tick = (): void => {
    for (;;) {
      const lateMs = performance.now() - this.#startMs - this.#nextSlot * SLOT_MS;
      if (lateMs < 0) break;
      if (this.isCounting) this.#late.record(Math.max(1, Math.round(lateMs * 1e6)));
      for (const send of this.#slots[this.#nextSlot % SLOTS]!) send();
      this.#nextSlot += 1;
    }
    const nextMs = this.#startMs + this.#nextSlot * SLOT_MS;
    this.#timer = setTimeout(this.#tick, Math.max(0, nextMs - performance.now()));
  };
}
