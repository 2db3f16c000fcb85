import { FRAME_MS } from './format.ts';

/** Ticks missed by more than this are skipped: after a stall, catching up would only be a burst. */
const MAX_BEHIND_MS = 200;
/** The listeners are spread over so many moments of the 20 ms, so that the work of one tick is a fifth of it. */
const PHASES = 5;
const PHASE_MS = FRAME_MS / PHASES;

/** One drift-free 20 ms clock for all rooms; it runs only while somebody listens to it. */
export class FrameClock {
  readonly #phases = Array.from({ length: PHASES }, () => new Set<(nowMs: number) => void>());
  /** Undefined while it ticks. */
  #timer: NodeJS.Timeout | undefined;
  #due: NodeJS.Immediate | undefined;
  #nextMs = 0;
  #nextPhase = 0;

  /** Calls `onTick` every 20 ms until {@link remove}. Adding it twice changes nothing. */
  add(onTick: (nowMs: number) => void): void {
    if (this.#phases.some((phase) => phase.has(onTick))) return;
    const isFirst = this.#isIdle;
    const least = Math.min(...this.#phases.map((phase) => phase.size));
    this.#phases.find((phase) => phase.size === least)?.add(onTick);
    // A listener that is added during a tick must not move the clock.
    if (!isFirst) return;
    this.#nextMs = performance.now() + PHASE_MS;
    this.#arm();
  }

  remove(onTick: (nowMs: number) => void): void {
    for (const phase of this.#phases) phase.delete(onTick);
    if (!this.#isIdle) return;
    clearTimeout(this.#timer);
    clearImmediate(this.#due);
    this.#timer = undefined;
  }

  /** Sleeps until the next phase that has a listener. */
  #arm(): void {
    while (this.#phases[this.#nextPhase]!.size === 0) this.#step();
    this.#timer = setTimeout(
      () => {
        // Frames that have arrived are read first: after a stall all of them are there, and must not be concealed.
        this.#due = setImmediate(() => this.#run());
      },
      Math.max(0, this.#nextMs - performance.now()),
    );
  }

  #run(): void {
    this.#timer = undefined;
    const nowMs = performance.now();
    if (nowMs - this.#nextMs > MAX_BEHIND_MS) this.#nextMs = nowMs;
    while (this.#nextMs <= nowMs) {
      for (const onTick of this.#phases[this.#nextPhase]!) onTick(this.#nextMs);
      this.#step();
    }
    if (!this.#isIdle && !this.#timer) this.#arm();
  }

  get #isIdle(): boolean {
    return this.#phases.every((phase) => phase.size === 0);
  }

  #step(): void {
    this.#nextPhase = (this.#nextPhase + 1) % PHASES;
    this.#nextMs += PHASE_MS;
  }
}
