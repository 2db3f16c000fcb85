/** Time over which a pace is measured, at least, ms: some ms of jitter are a few per cent of it. */
const WINDOW_MS = 150;
const LEAST_MESSAGES = 2;
/** A pause of the sender, or a stall of the network, ms, or in messages. */
const PAUSE_MS = 150;
const PAUSE_MESSAGES = 3;
/** Least ratio between the pace of a stream and that of its format, either way, that suggests another sample rate. */
const LEAST_RATIO = 1.15;
/** Ratios of windows in a row that are this close are those of a sender; a network that stalls and catches up makes others. */
const ALIKE = 1.1;
/** Windows in a row that make a pace that of another rate; twice as many after each change, because some networks are slow for a while. */
const WINDOWS = 3;
const MAX_WINDOWS = 96;
/** Time until the pace is judged again after it was found to be another, ms; longer each time, because some networks are never steady. */
const FIRST_CALM_MS = 1000;
const MAX_CALM_MS = 10_000;

/** Notices that samples come at another pace than that of their format, as after a change of their rate. Pure; some comparisons a message. */
export class PaceWatch {
  readonly #bytesPerMs: number;
  readonly #leastWindows: number;
  #fromMs = 0;
  #lastMs = -Infinity;
  #bytes = 0;
  #messages = 0;
  /** How many times as fast the window before came, and the number of windows in a row that came so; none while the pace is about right. */
  #ratio = 1;
  #windows = 0;
  #calmUntilMs = 0;
  #calmMs = FIRST_CALM_MS;

  /**
   * @param bytesPerMs pace of the format
   * @param changes number of times that the rate of the stream has changed already
   */
  constructor(bytesPerMs: number, changes: number) {
    this.#bytesPerMs = bytesPerMs;
    this.#leastWindows = Math.min(MAX_WINDOWS, WINDOWS * 2 ** changes);
  }

  /** Takes the length of a message, bytes, and the time at which it came. @returns true if the pace seems to be that of another rate */
  push(bytes: number, atMs: number): boolean {
    const gapMs = atMs - this.#lastMs;
    this.#lastMs = atMs;
    const usualMs = bytes / this.#bytesPerMs;
    if (gapMs > Math.max(PAUSE_MS, PAUSE_MESSAGES * usualMs)) {
      this.#windows = 0;
      this.#begin(atMs);
      return false;
    }
    this.#bytes += bytes;
    this.#messages += 1;
    const elapsedMs = atMs - this.#fromMs;
    if (elapsedMs < WINDOW_MS || this.#messages < LEAST_MESSAGES) return false;
    this.#count(this.#bytes / elapsedMs / this.#bytesPerMs);
    this.#begin(atMs);
    if (this.#windows < this.#leastWindows || atMs < this.#calmUntilMs) return false;
    this.#calmUntilMs = atMs + this.#calmMs;
    this.#calmMs = Math.min(MAX_CALM_MS, 2 * this.#calmMs);
    return true;
  }

  #count(ratio: number): void {
    const isAlike = Math.max(ratio / this.#ratio, this.#ratio / ratio) < ALIKE;
    const isOther = Math.max(ratio, 1 / ratio) > LEAST_RATIO;
    if (!isOther) this.#windows = 0;
    else this.#windows = isAlike ? this.#windows + 1 : 1;
    this.#ratio = ratio;
  }

  #begin(atMs: number): void {
    this.#fromMs = atMs;
    this.#bytes = 0;
    this.#messages = 0;
  }
}
