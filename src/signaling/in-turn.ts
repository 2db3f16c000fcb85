/** Handles items one after the other, also where handling one takes time. */
export class InTurn<T> {
  readonly #handle: (item: T, idleMs: number) => Promise<void>;
  #waiting = 0;
  #handling: Promise<void> = Promise.resolve();
  #doneAtMs = -Infinity;

  /** @param handle never rejects; `idleMs` is for how long nothing had been there when the item came */
  constructor(handle: (item: T, idleMs: number) => Promise<void>) {
    this.#handle = handle;
  }

  /** Number of items that have not been handled to the end. */
  get waiting(): number {
    return this.#waiting;
  }

  add(item: T): void {
    const idleMs = this.#waiting === 0 ? performance.now() - this.#doneAtMs : 0;
    this.#waiting += 1;
    this.#handling = this.#handling.then(async () => {
      await this.#handle(item, idleMs);
      this.#waiting -= 1;
      this.#doneAtMs = performance.now();
    });
  }
}
