/** Cache of an asynchronous reading. Callers share a reading that is in progress or younger than `everyMs`. */
export class SharedLook<T> {
  readonly #look: () => Promise<T>;
  readonly #everyMs: number;
  readonly #now: () => number;
  #last: { atMs: number; isUnderWay: boolean; seen: Promise<T> } | undefined;

  /**
   * @param look never rejects
   * @param now a monotonic clock, ms
   */
  constructor(look: () => Promise<T>, everyMs: number, now = () => performance.now()) {
    this.#look = look;
    this.#everyMs = everyMs;
    this.#now = now;
  }

  read(): Promise<T> {
    const atMs = this.#now();
    if (this.#last && (this.#last.isUnderWay || atMs - this.#last.atMs < this.#everyMs)) {
      return this.#last.seen;
    }
    const last = { atMs, isUnderWay: true, seen: this.#look() };
    void last.seen.then(() => (last.isUnderWay = false));
    this.#last = last;
    return last.seen;
  }
}
