/** Writes a changing value, one write at a time: of the values set during a write, only the last one is written. */
export class LatestWrite {
  readonly #write: (value: string) => Promise<void>;
  readonly #onFault: (fault: unknown) => void;
  #written: string | undefined;
  #next: string | undefined;
  #writing: Promise<void> | undefined;

  /** @param onFault called with the error of a write that failed; later values are still written */
  constructor(write: (value: string) => Promise<void>, onFault: (fault: unknown) => void) {
    this.#write = write;
    this.#onFault = onFault;
  }

  /** Resolves when this value, or a later one, has been written or has failed to be written. */
  write(value: string): Promise<void> {
    this.#next = value;
    this.#writing ??= this.#run().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #run(): Promise<void> {
    while (this.#next !== undefined && this.#next !== this.#written) {
      const value = this.#next;
      try {
        await this.#write(value);
        this.#written = value;
      } catch (fault) {
        this.#onFault(fault);
        // Redis may nevertheless have stored it, or store it later.
        this.#written = undefined;
        if (this.#next === value) return;
      }
    }
  }
}
