/** Handles items one after the other, also where handling one takes time. */
export class SerialQueue<T> {
  readonly #handle: (item: T, idleMs: number) => Promise<void>;
  /** Waiting items; the first one is being handled. */
  #items: T[] = [];
  #doneAtMs = -Infinity;

  /** @param handle never rejects; `idleMs` is the time for which the queue was empty when the item came */
  constructor(handle: (item: T, idleMs: number) => Promise<void>) {
    this.#handle = handle;
  }

  /** Number of items whose handling has not ended. */
  get waiting(): number {
    return this.#items.length;
  }

  add(item: T): void {
    if (this.#items.push(item) === 1) void this.#run(performance.now() - this.#doneAtMs);
  }

  /** Drops items whose handling has not begun. */
  clear(): void {
    this.#items = this.#items.slice(0, 1);
  }

  async #run(idleMs: number): Promise<void> {
    // Handling starts only after the code that adds the item has run.
    await Promise.resolve();
    let itemIdleMs = idleMs;
    for (let item = this.#items[0]; item !== undefined; item = this.#items[0]) {
      await this.#handle(item, itemIdleMs);
      this.#items.shift();
      itemIdleMs = 0;
    }
    this.#doneAtMs = performance.now();
  }
}
