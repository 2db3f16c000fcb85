/** Time for which nothing comes, after which the way down is held to be broken, ms. */
const SILENCE_MS = 1500;

/** Finds out whether packets come, and whether they fail to come while others are said to speak. Times are of any steady clock, ms. */
export class FlowWatch {
  #packets: number | undefined;
  #movedMs = -Infinity;
  #expectedSinceMs: number | undefined;

  /**
   * Notes how things are; called a few times a second.
   * @param packets received since the beginning; undefined: not counted this time
   */
  note(areOthersSpeaking: boolean, packets: number | undefined, nowMs: number): void {
    if (this.#packets !== undefined && packets !== undefined && packets !== this.#packets) {
      this.#movedMs = nowMs;
    }
    this.#packets = packets;
    if (areOthersSpeaking) this.#expectedSinceMs ??= nowMs;
    else this.#expectedSinceMs = undefined;
  }

  /** Packets have come lately. */
  isMoving(nowMs: number): boolean {
    return nowMs - this.#movedMs < SILENCE_MS;
  }

  /** Time since which others speak and nothing comes, ms; undefined until that has been so for a while. */
  silencedSinceMs(nowMs: number): number | undefined {
    if (this.#expectedSinceMs === undefined) return undefined;
    const sinceMs = Math.max(this.#expectedSinceMs, this.#movedMs);
    return nowMs - sinceMs >= SILENCE_MS ? sinceMs : undefined;
  }
}
