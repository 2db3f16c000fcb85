/** Time without a packet after which the path from the gateway counts as broken, ms. */
const SILENCE_MS = 1500;

/**
 * Watches whether packets arrive, and whether they are missing while the gateway reports other speakers.
 * Times are of one monotonic clock, ms.
 */
export class FlowWatch {
  #packets: number | undefined;
  #movedMs = -Infinity;
  #expectedSinceMs: number | undefined;

  /**
   * Notes the present state; called a few times a second.
   * @param packets number received since the beginning; undefined if not counted this time
   */
  note(areOthersSpeaking: boolean, packets: number | undefined, nowMs: number): void {
    if (this.#packets !== undefined && packets !== undefined && packets !== this.#packets) {
      this.#movedMs = nowMs;
    }
    this.#packets = packets;
    if (areOthersSpeaking) this.#expectedSinceMs ??= nowMs;
    else this.#expectedSinceMs = undefined;
  }

  /** Returns true if packets have arrived lately. */
  isMoving(nowMs: number): boolean {
    return nowMs - this.#movedMs < SILENCE_MS;
  }

  /** Time since which others speak and nothing comes, ms; undefined until that has been so for a while. */
  nothingArrivesSinceMs(nowMs: number): number | undefined {
    if (this.#expectedSinceMs === undefined) return undefined;
    const sinceMs = Math.max(this.#expectedSinceMs, this.#movedMs);
    return nowMs - sinceMs >= SILENCE_MS ? sinceMs : undefined;
  }
}
