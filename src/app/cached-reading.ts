/** Cache of an asynchronous reading. Callers share a reading that is in progress or younger than `everyMs`. */
export class CachedReading<T> {
  readonly #source: () => Promise<T>;
  readonly #everyMs: number;
  readonly #now: () => number;
  #last: { atMs: number; isUnderWay: boolean; result: Promise<T> } | undefined;

  /**
   * @param source never rejects
   * @param now a monotonic clock, ms
   */
  constructor(source: () => Promise<T>, everyMs: number, now = () => performance.now()) {
    this.#source = source;
    this.#everyMs = everyMs;
    this.#now = now;
  }

  read(): Promise<T> {
    const atMs = this.#now();
    if (this.#last && (this.#last.isUnderWay || atMs - this.#last.atMs < this.#everyMs)) {
      return this.#last.result;
    }
    const last = { atMs, isUnderWay: true, result: this.#source() };
    void last.result.then(() => (last.isUnderWay = false));
    this.#last = last;
    return last.result;
  }
}
