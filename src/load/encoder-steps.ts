import type { Timings } from '../../config/timings.ts';
import type { LoadLevel } from './load-level.ts';

/** Complexities at which an Opus encoder's cost differs. */
const STEPS = [8, 5, 3, 1, 0];

/** Complexity of the Opus encoders: reduced while the node is strained or overloaded, and slowly raised again. Pure. */
export class EncoderSteps {
  readonly #wanted: number;
  readonly #timings: Timings['load'];
  #changedAtMs = -Infinity;
  #strainedAtMs = -Infinity;
  #now: number;

  constructor(wantedComplexity: number, timings: Timings['load']) {
    this.#wanted = wantedComplexity;
    this.#timings = timings;
    this.#now = wantedComplexity;
  }

  /** The present complexity. */
  get complexity(): number {
    return this.#now;
  }

  /** Returns the complexity for the present load level; to be called about once a second. */
  at(level: LoadLevel, nowMs: number): number {
    const { cheaperEveryMs, dearerAfterMs } = this.#timings;
    if (level !== 'normal') this.#strainedAtMs = nowMs;
    const sinceChangeMs = nowMs - this.#changedAtMs;
    if (level !== 'normal' && sinceChangeMs >= cheaperEveryMs) {
      this.#change(STEPS.find((step) => step < this.#now) ?? this.#now, nowMs);
    }
    const calmMs = Math.min(nowMs - this.#strainedAtMs, sinceChangeMs);
    if (calmMs >= dearerAfterMs) {
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
