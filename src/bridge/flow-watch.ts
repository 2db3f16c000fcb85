/** Lead below which audio is in time, ms. */
const IN_TIME_MS = 150;
/** Lead below which a client that was told to wait may continue, ms. */
const GO_ON_MS = 60;
/** Maximum time for which audio may be ahead, ms: audio in pieces of up to 2 s, or after a stall, is in time again by then. */
const MAX_AHEAD_FOR_MS = 3000;
/** Maximum lead of a piece, ms. */
const MAX_LEAD_MS = 2300;
/** Time for which audio must be ahead to exceed the limit, ms: no voice client sends it (docs/protocol.md, 4422). */
const MAX_EXCEEDED_MS = 5000;
/** Length of a window, and dropped audio, ms, from which the window counts as ahead of time, even if the rest of its audio was not. */
const WINDOW_MS = 1000;
const MAX_DROPPED_MS = 100;
const MAX_DROPPED_WINDOWS = 3;

/**
 * Watches the lead of a client over real time. `xoff`: the client does not return to real time by itself; `xon`: it
 * has returned; `exceeded`: it has been ahead for more than five seconds. Pure.
 */
export class FlowWatch {
  #isOff = false;
  #inTimeAtMs: number | undefined;
  #windowEndsAtMs = -Infinity;
  #droppedBeforeMs = 0;
  /** Number of consecutive windows in which too much was dropped. */
  #droppedWindows = 0;

  /**
   * @param leadMs lead of the audio over real time
   * @param droppedMs total duration of audio dropped so far because it was ahead
   */
  watch(nowMs: number, leadMs: number, droppedMs: number): 'xoff' | 'xon' | 'exceeded' | undefined {
    this.#countDropped(nowMs, droppedMs);
    if (leadMs < IN_TIME_MS) this.#inTimeAtMs = nowMs;
    this.#inTimeAtMs ??= nowMs;
    const aheadForMs = Math.max(nowMs - this.#inTimeAtMs, this.#droppedWindows * WINDOW_MS);
    if (aheadForMs > MAX_EXCEEDED_MS) return 'exceeded';
    if (!this.#isOff) {
      const isAhead =
        aheadForMs > MAX_AHEAD_FOR_MS ||
        leadMs > MAX_LEAD_MS ||
        this.#droppedWindows >= MAX_DROPPED_WINDOWS;
      if (!isAhead) return undefined;
      this.#isOff = true;
      return 'xoff';
    }
    if (leadMs >= GO_ON_MS || this.#droppedWindows > 0) return undefined;
    this.#isOff = false;
    return 'xon';
  }

  #countDropped(nowMs: number, droppedMs: number): void {
    if (nowMs < this.#windowEndsAtMs) return;
    // A window that ended long ago was followed by silence.
    const isNext = nowMs < this.#windowEndsAtMs + WINDOW_MS;
    const isOver = isNext && droppedMs - this.#droppedBeforeMs > MAX_DROPPED_MS;
    this.#droppedWindows = isOver ? this.#droppedWindows + 1 : 0;
    this.#droppedBeforeMs = droppedMs;
    this.#windowEndsAtMs = nowMs + WINDOW_MS;
  }
}
