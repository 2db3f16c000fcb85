/** Lead below which audio is in time, ms. */
const IN_TIME_MS = 150;
/** A client that was told to wait is told to go on when its lead is below this, ms. */
const GO_ON_MS = 60;
/** Sound that is sent in pieces of up to 2 s, or behind a stall, is in time again within this, ms. */
const MAX_AHEAD_FOR_MS = 3000;
/** No piece is further ahead than this, ms. */
const MAX_LEAD_MS = 2300;
/** Sound that is ahead for longer than this comes from no voice client (docs/protocol.md, 4422). */
const MAX_EXCEEDED_MS = 5000;
/** A second in which more than a tenth had to be left out was ahead of time, even if what was left was not. */
const WINDOW_MS = 1000;
const MAX_DROPPED_MS = 100;
const MAX_DROPPED_WINDOWS = 3;

/**
 * Watches how far a client is ahead of time. `xoff`: it does not come back into time by itself; `xon`: it
 * has; `exceeded`: it has been ahead for more than five seconds. Pure.
 */
export class FlowWatch {
  #isOff = false;
  #inTimeAtMs: number | undefined;
  #windowEndsAtMs = -Infinity;
  #droppedBeforeMs = 0;
  /** Windows in a row in which too much was left out. */
  #droppedWindows = 0;

  /**
   * @param leadMs how far the sound is ahead of its time
   * @param droppedMs how much has been left out so far, because it was ahead
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
