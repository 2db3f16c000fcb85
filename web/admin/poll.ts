/** Does something again and again, a while after it was done last, as long as the tab can be seen. */
export class Poll {
  readonly #run: () => Promise<void>;
  readonly #everyMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isRunning = false;
  #isAskedAgain = false;
  #isClosed = false;

  /** @param run must not throw */
  constructor(run: () => Promise<void>, everyMs: number) {
    this.#run = run;
    this.#everyMs = everyMs;
    document.addEventListener('visibilitychange', this.#onVisibility);
    this.now();
  }

  /** Does it at once, or as soon as what is being done is done. */
  now(): void {
    clearTimeout(this.#timer);
    this.#isAskedAgain = this.#isRunning;
    if (!this.#isRunning) void this.#turn();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    document.removeEventListener('visibilitychange', this.#onVisibility);
  }

  readonly #onVisibility = (): void => {
    if (document.hidden) clearTimeout(this.#timer);
    else this.now();
  };

  async #turn(): Promise<void> {
    this.#isRunning = true;
    do {
      this.#isAskedAgain = false;
      await this.#run();
    } while (this.#isAskedAgain && !this.#isClosed);
    this.#isRunning = false;
    if (this.#isClosed || document.hidden) return;
    this.#timer = setTimeout(() => void this.#turn(), this.#everyMs);
  }
}
