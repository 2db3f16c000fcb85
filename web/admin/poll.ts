/** Repeats an action, with a pause after each run, while the tab is visible. */
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

  /** Runs it at once, or right after the present run. */
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
