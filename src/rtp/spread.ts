/** A delay that stays the same for two windows is not jitter but the sender's clock. */
export const WINDOW_MS = 500;

/** The least and the most of the last one to two windows. */
export class Spread {
  #minBefore = Infinity;
  #maxBefore = -Infinity;
  #min = Infinity;
  #max = -Infinity;
  #endsAtMs: number | undefined;
  #isFull = false;

  /** Nothing is known before a window has passed. */
  get minMs(): number {
    return this.#isFull ? Math.min(this.#minBefore, this.#min) : -Infinity;
  }

  get maxMs(): number {
    return this.#isFull ? Math.max(this.#maxBefore, this.#max) : Infinity;
  }

  /** @returns whether a window has ended */
  tick(nowMs: number): boolean {
    this.#endsAtMs ??= nowMs + WINDOW_MS;
    if (nowMs < this.#endsAtMs) return false;
    this.#endsAtMs = nowMs + WINDOW_MS;
    this.#minBefore = this.#min;
    this.#maxBefore = this.#max;
    this.#min = Infinity;
    this.#max = -Infinity;
    this.#isFull = Number.isFinite(this.#minBefore);
    return this.#isFull;
  }

  add(value: number): void {
    this.#min = Math.min(this.#min, value);
    this.#max = Math.max(this.#max, value);
  }

  move(by: number): void {
    this.#minBefore += by;
    this.#maxBefore += by;
    this.#min += by;
    this.#max += by;
  }
}
