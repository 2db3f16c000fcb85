/** Time without a packet after which the path of a sender counts as broken, ms: in silence browsers send a packet every 400 ms. */
const STOPPED_AFTER_MS = 1000;
/** Time between two looks, ms, from which this process stood still: packets that came meanwhile may be unread. Looks are 1 s apart. */
const STOOD_STILL_MS = 1500;

type RtpState = 'stopped' | 'flowing';

/** Watches whether RTP of a browser still arrives. Pure. */
export class RtpWatch {
  /** State that the client knows; undefined if it may have missed the last one. */
  #told: RtpState | undefined = 'flowing';
  /** Time since which packets are expected, ms. */
  #expectedSinceMs: number | undefined;
  #lookedAtMs = Infinity;

  /**
   * @param lastAtMs arrival time of the last packet; undefined before the first
   * @param isExpected false while the browser produces nothing, or is muted
   * @returns the new state; undefined if it is unchanged, or not known yet
   */
  look(nowMs: number, lastAtMs: number | undefined, isExpected: boolean): RtpState | undefined {
    if (nowMs - this.#lookedAtMs >= STOOD_STILL_MS) this.#expectedSinceMs = nowMs;
    this.#lookedAtMs = nowMs;
    if (!isExpected) {
      this.#expectedSinceMs = undefined;
      return undefined;
    }
    this.#expectedSinceMs ??= nowMs;
    const sinceMs = Math.max(lastAtMs ?? -Infinity, this.#expectedSinceMs);
    const hasStopped = nowMs - sinceMs >= STOPPED_AFTER_MS;
    // A pause of the sender itself proves nothing.
    const isFlowing = lastAtMs !== undefined && nowMs - lastAtMs < STOPPED_AFTER_MS;
    if (!hasStopped && !isFlowing) return undefined;
    const state = hasStopped ? 'stopped' : 'flowing';
    if (state === this.#told) return undefined;
    this.#told = state;
    return state;
  }

  /** Has the state told again, even if it is unchanged: the client has lost its connection, and messages with it. */
  tellAgain(): void {
    this.#told = undefined;
  }
}
