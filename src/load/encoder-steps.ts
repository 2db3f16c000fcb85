import type { LoadLevel } from './load-level.ts';

/** Complexities at which an Opus encoder's cost differs. */
const STEPS = [8, 5, 3, 1, 0];
/** A step down, and then what it brings is waited for. */
const DOWN_EVERY_MS = 2000;
/** Least time between two steps up. A step up may strain the node again. */
const UP_EVERY_MS = 15_000;

/** How complex the Opus encoders may be: less while the node has too much to do, and slowly as much as is wanted again. Pure. */
export class EncoderSteps {
  readonly #wanted: number;
  #changedAtMs = -Infinity;
  #strainedAtMs = -Infinity;
  #now: number;

  constructor(wantedComplexity: number) {
    this.#wanted = wantedComplexity;
    this.#now = wantedComplexity;
  }

  /** The complexity as it is now. */
  get complexity(): number {
    return this.#now;
  }

  /** The complexity at a moment at which the node's load is at this level; to be asked every second or so. */
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
