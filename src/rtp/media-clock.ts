/**
 * Holds a sender's audio against real time. A WebSocket client stamps nothing, so how much audio it sent is its only
 * clock: this tells pauses (the RTP timestamp must jump) from jitter (it must not), and bounds how far ahead of real
 * time the client may run.
 */
export class MediaClock {
  readonly #gapMs: number;
  readonly #maxAheadMs: number;
  /** When the audio admitted so far ends, on the same clock as `nowMs`. */
  #endMs: number | undefined;

  /**
   * @param limits `gapMs`: silence this long is a pause; `maxAheadMs`: audio further ahead than this is refused
   */
  constructor(limits: { gapMs: number; maxAheadMs: number }) {
    this.#gapMs = limits.gapMs;
    this.#maxAheadMs = limits.maxAheadMs;
  }

  /**
   * Takes in audio that arrived at `nowMs`.
   * @returns the pause before it in ms (0 if it follows on), or undefined if it is too far ahead and must be dropped
   */
  admit(nowMs: number, durationMs: number): number | undefined {
    if (this.#endMs === undefined) {
      this.#endMs = nowMs + durationMs;
      return 0;
    }
    const lateMs = nowMs - this.#endMs;
    if (lateMs >= this.#gapMs) {
      this.#endMs = nowMs + durationMs;
      return lateMs;
    }
    if (durationMs - lateMs > this.#maxAheadMs) return undefined;
    this.#endMs += durationMs;
    return 0;
  }
}
