/** Handles what comes one after the other, even if that takes time. */
export class InTurn<T> {
  readonly #handle: (item: T) => Promise<void>;
  #waiting = 0;
  #handling: Promise<void> = Promise.resolve();

  /** @param handle never rejects */
  constructor(handle: (item: T) => Promise<void>) {
    this.#handle = handle;
  }

  /** How many have not been handled to the end. */
  get waiting(): number {
    return this.#waiting;
  }

  add(item: T): void {
    this.#waiting += 1;
    this.#handling = this.#handling.then(async () => {
      await this.#handle(item);
      this.#waiting -= 1;
    });
  }
}
