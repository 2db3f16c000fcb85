import { FRAME_MS } from './format.ts';

/** Ticks missed by more than this are skipped: after a stall, catching up would only be a burst. */
const MAX_BEHIND_MS = 200;

/** One drift-free 20 ms clock for all rooms; it runs only while somebody listens to it. */
export class FrameClock {
  readonly #listeners = new Set<(nowMs: number) => void>();
  #timer: NodeJS.Timeout | undefined;
  #nextMs = 0;

  /** Calls `onTick` every 20 ms until {@link remove}. Adding it twice changes nothing. */
  add(onTick: (nowMs: number) => void): void {
    this.#listeners.add(onTick);
    if (this.#timer) return;
    this.#nextMs = performance.now() + FRAME_MS;
    this.#arm();
  }

  remove(onTick: (nowMs: number) => void): void {
    this.#listeners.delete(onTick);
    if (this.#listeners.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #arm(): void {
    this.#timer = setTimeout(() => this.#run(), Math.max(0, this.#nextMs - performance.now()));
  }

  #run(): void {
    const nowMs = performance.now();
    if (nowMs - this.#nextMs > MAX_BEHIND_MS) this.#nextMs = nowMs;
    while (this.#nextMs <= nowMs) {
      for (const onTick of this.#listeners) onTick(this.#nextMs);
      this.#nextMs += FRAME_MS;
    }
    if (this.#listeners.size > 0) this.#arm();
  }
}
