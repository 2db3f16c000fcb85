import type { LoadLevel } from './load-level.ts';

/** Complexities at which an Opus encoder's cost differs. */
const STEPS = [8, 5, 3, 1, 0];
/** Time after a step down until the next one, ms, so that its effect is seen. */
const DOWN_EVERY_MS = 2000;
/** Time without strain and without a change before a step up, ms: the step may strain the node again. */
const UP_EVERY_MS = 15_000;

/** Complexity of the Opus encoders: reduced while the node is strained or overloaded, and slowly raised again. Pure. */
export class EncoderSteps {
  readonly #wanted: number;
  #changedAtMs = -Infinity;
  #strainedAtMs = -Infinity;
  #now: number;

  constructor(wantedComplexity: number) {
    this.#wanted = wantedComplexity;
    this.#now = wantedComplexity;
  }

  /** The present complexity. */
  get complexity(): number {
    return this.#now;
  }

  /** Returns the complexity for the present load level; to be called about once a second. */
  at(level: LoadLevel, nowMs: number): number {
    if (level !== 'normal') this.#strainedAtMs = nowMs;
    const sinceChangeMs = nowMs - this.#changedAtMs;
    if (level !== 'normal' && sinceChangeMs >= DOWN_EVERY_MS) {
      this.#change(STEPS.find((step) => step < this.#now) ?? this.#now, nowMs);
    }
    const calmMs = Math.min(nowMs - this.#strainedAtMs, sinceChangeMs);
    if (calmMs >= UP_EVERY_MS) {
      const higher = STEPS.findLast((step) => step > this.#now) ?? this.#wanted;
      this.#change(Math.min(higher, this.#wanted), nowMs);
    }
    return this.#now;
  }

  #change(complexity: number, nowMs: number): void {
    if (complexity === this.#now) return;
    this.#now = complexity;
    this.#changedAtMs = nowMs;
  }
}
