/** Time without a packet after which the path from the gateway counts as broken, ms. */
const SILENCE_MS = 1500;

/**
 * Watches whether packets arrive, and whether none arrive although the gateway reports other speakers.
 * Times are of one monotonic clock, ms.
 */
export class FlowWatch {
  #packets: number | undefined;
  #movedMs = -Infinity;
  #expectedSinceMs: number | undefined;

  /**
   * Notes the present state; to be called a few times a second.
   * @param packets number of packets received since the beginning; undefined if it was not read this time
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

  /** Returns the time from which others have spoken and no packet has arrived, ms; undefined if that was less than {@link SILENCE_MS} ago. */
  nothingArrivesSinceMs(nowMs: number): number | undefined {
    if (this.#expectedSinceMs === undefined) return undefined;
    const sinceMs = Math.max(this.#expectedSinceMs, this.#movedMs);
    return nowMs - sinceMs >= SILENCE_MS ? sinceMs : undefined;
  }
}
