/** Number of values that suffice before the first window is full. */
const FIRST_VALUES = 16;

/** Minimum of the last one to two windows of values. */
export class LeastOfLate {
  readonly #windowValues: number;
  #before: number | undefined;
  #now = Infinity;
  #count = 0;

  constructor(windowValues: number) {
    this.#windowValues = windowValues;
  }

  /** Minimum of the values; undefined until there are enough of them. */
  get least(): number | undefined {
    if (this.#before !== undefined) return Math.min(this.#before, this.#now);
    return this.#count < FIRST_VALUES ? undefined : this.#now;
  }

  /** @param weight share of one value that it counts for, in the length of the windows */
  add(value: number, weight: number): void {
    this.#now = Math.min(this.#now, value);
    this.#count += weight;
    if (this.#count < this.#windowValues) return;
    this.#before = this.#now;
    this.#now = Infinity;
    this.#count = 0;
  }

  /** Adds `by` to all values, after a change of the delay. */
  shift(by: number): void {
    this.#now += by;
    if (this.#before !== undefined) this.#before += by;
  }
}
