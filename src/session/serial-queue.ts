/** Handles items one after the other, also where handling one takes time. */
export class SerialQueue<T> {
  readonly #handle: (item: T, idleMs: number) => Promise<void>;
  /** Those that wait; the first is the one that is being handled. */
  #items: T[] = [];
  #doneAtMs = -Infinity;

  /** @param handle never rejects; `idleMs` is for how long nothing had been there when the item came */
  constructor(handle: (item: T, idleMs: number) => Promise<void>) {
    this.#handle = handle;
  }

  /** Number of items that have not been handled to the end. */
  get waiting(): number {
    return this.#items.length;
  }

  add(item: T): void {
    if (this.#items.push(item) === 1) void this.#run(performance.now() - this.#doneAtMs);
  }

  /** Forgets those whose handling has not begun. */
  clear(): void {
    this.#items = this.#items.slice(0, 1);
  }

  async #run(idleMs: number): Promise<void> {
    // Nothing is handled before whoever adds it is done.
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
