/** Time without a packet after which the path of a sender counts as broken, ms: in silence browsers send a packet every 400 ms. */
const STOPPED_AFTER_MS = 1000;

/** Watches whether RTP of a browser still arrives. Pure. */
export class RtpWatch {
  #hasStopped = false;
  /** Time since which packets are expected, ms. */
  #expectedSinceMs: number | undefined;

  /**
   * @param lastAtMs arrival time of the last packet; undefined before the first
   * @param isExpected false while the browser produces nothing, or is muted
   * @returns the new state; undefined if it is unchanged
   */
  look(
    nowMs: number,
    lastAtMs: number | undefined,
    isExpected: boolean,
  ): 'stopped' | 'flowing' | undefined {
    if (!isExpected) {
      this.#expectedSinceMs = undefined;
      return undefined;
    }
    this.#expectedSinceMs ??= nowMs;
    const sinceMs = Math.max(lastAtMs ?? -Infinity, this.#expectedSinceMs);
    const hasStopped = nowMs - sinceMs >= STOPPED_AFTER_MS;
    // A pause of the sender itself proves nothing.
    const isBack =
      this.#hasStopped && lastAtMs !== undefined && nowMs - lastAtMs < STOPPED_AFTER_MS;
    if (this.#hasStopped ? !isBack : !hasStopped) return undefined;
    this.#hasStopped = hasStopped;
    return hasStopped ? 'stopped' : 'flowing';
  }
}
