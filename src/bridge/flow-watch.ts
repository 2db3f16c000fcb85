/** Lead below which audio is in time, ms; and the same for sound beyond the time in which it came. */
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
/** Maximum credit, ms: sound of that much time may have been held up by a stall. A pause looks the same, and gives as much. */
const MAX_CREDIT_MS = 4000;
/** Time from the first message, ms, within which messages belong to the same piece: its sound was recorded before it came. */
const FIRST_PIECE_MS = 50;

/**
 * Watches the lead of a client over real time. `xoff`: the client does not return to real time by itself; `xon`: it
 * has returned; `exceeded`: it has been ahead for more than five seconds, and still sends. Pure.
 *
 * A lead alone does not mean that a client is too fast: the pacer takes a stall of the network for a pause, and all that was held up
 * comes ahead of what it then expects. So sound is compared with the time that has passed, too: a client that has sent no more is in time.
 */
export class FlowWatch {
  #isOff = false;
  #inTimeAtMs: number | undefined;
  #windowEndsAtMs = -Infinity;
  #excessBeforeMs = 0;
  /** Number of consecutive windows in which too much was dropped. */
  #droppedWindows = 0;
  #firstAtMs: number | undefined;
  #atMs: number | undefined;
  #receivedMs = 0;
  /** Time that has passed less the sound that came in it, ms. */
  #creditMs = 0;
  /** Minimum debt in this window, ms, while the lead was in time. */
  #debtMs = Infinity;

  /** True if the client was told to wait, and not yet to go on. */
  get isOff(): boolean {
    return this.#isOff;
  }

  /**
   * @param leadMs lead of the audio over real time
   * @param excessMs total duration of audio dropped so far because it was ahead
   * @param receivedMs total duration of audio received so far
   */
  watch(
    nowMs: number,
    leadMs: number,
    excessMs: number,
    receivedMs: number,
  ): 'xoff' | 'xon' | 'exceeded' | undefined {
    const isSending = receivedMs > this.#receivedMs;
    this.#balance(nowMs, leadMs, receivedMs);
    this.#countDropped(nowMs, excessMs);
    const isOnTheWholeInTime = this.#creditMs >= -IN_TIME_MS;
    if (isOnTheWholeInTime) this.#droppedWindows = 0;
    if (isOnTheWholeInTime || leadMs < IN_TIME_MS) this.#inTimeAtMs = nowMs;
    this.#inTimeAtMs ??= nowMs;
    const aheadForMs = Math.max(nowMs - this.#inTimeAtMs, this.#droppedWindows * WINDOW_MS);
    if (aheadForMs > MAX_EXCEEDED_MS && isSending) return 'exceeded';
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

  #balance(nowMs: number, leadMs: number, receivedMs: number): void {
    // Sound that was held before it came here may be older than the last tick.
    const passedMs = Math.max(0, nowMs - (this.#atMs ?? nowMs));
    this.#atMs = Math.max(nowMs, this.#atMs ?? nowMs);
    this.#creditMs = Math.min(MAX_CREDIT_MS, this.#creditMs + passedMs);
    this.#creditMs -= receivedMs - this.#receivedMs;
    this.#receivedMs = receivedMs;
    this.#firstAtMs ??= nowMs;
    // Only what a first piece holds beyond the longest one came too early.
    if (nowMs <= this.#firstAtMs + FIRST_PIECE_MS) {
      this.#creditMs = Math.min(0, MAX_LEAD_MS - receivedMs);
    }
    if (leadMs < IN_TIME_MS) this.#debtMs = Math.min(this.#debtMs, Math.max(0, -this.#creditMs));
  }

  #countDropped(nowMs: number, excessMs: number): void {
    if (nowMs < this.#windowEndsAtMs) return;
    // A window that ended long ago was followed by silence.
    const isNext = nowMs < this.#windowEndsAtMs + WINDOW_MS;
    const isOver = isNext && excessMs - this.#excessBeforeMs > MAX_DROPPED_MS;
    this.#droppedWindows = isOver ? this.#droppedWindows + 1 : 0;
    // A fast clock, or padding, that the pacer makes up for is forgiven.
    if (!isOver && this.#debtMs < Infinity) this.#creditMs += this.#debtMs;
    this.#debtMs = Infinity;
    this.#excessBeforeMs = excessMs;
    this.#windowEndsAtMs = nowMs + WINDOW_MS;
  }
}
