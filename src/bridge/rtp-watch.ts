/** Time without a packet after which the path of a sender counts as broken: in silence browsers send a packet every 400 ms. */
const STOPPED_AFTER_MS = 1000;

/** Watches whether the RTP of a browser still comes. Pure. */
export class RtpWatch {
  #hasStopped = false;
  /** Since when it is to come. */
  #expectedSinceMs: number | undefined;

  /**
   * @param lastAtMs when the last packet came; undefined before the first
   * @param isExpected false while the browser produces nothing, or is muted
   * @returns what is new; undefined if nothing is
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
