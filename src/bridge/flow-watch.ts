/** Lead below which audio is in time, ms; and the same for sound beyond the time in which it came. */
const IN_TIME_MS = 150;
/** Lead below which a client that was told to wait may continue, ms. */
const GO_ON_MS = 60;
/** Maximum time for which audio may be ahead, ms: audio in pieces of up to 2 s, or after a stall, is in time again by then. */
const MAX_AHEAD_FOR_MS = 3000;
/** Maximum lead of a piece, ms. */
const MAX_LEAD_MS = 2300;
/** Minimum length of a window, ms. It ends with the next piece after that, which holds the sound of the pause or the stall before it. */
const WINDOW_MS = 1000;
/** Maximum sound of a window as a share of its time: a fast clock and the padding of pieces remain below it. */
const MAX_RATE = 1.1;
/** Maximum lead of padded pieces, ms: 8 % of the four pieces of 2 s after which the pacer knows them. */
const MAX_PADDED_LEAD_MS = 640;
/**
 * Maximum credit and debt, ms. Sound of that much time may have been held up by a stall; a pause looks the same, and gives as much. A
 * client that was told to wait waits no longer than that.
 */
const MAX_BALANCE_MS = 4000;
/** Time from its first message, ms, in which a piece comes. */
const PIECE_MS = 50;

/**
 * Watches the lead of a client over real time. `xoff`: the client does not return to real time by itself; `xon`: it
 * has returned; `exceeded`: it has been ahead for longer than any voice client (docs/protocol.md, 4422), and still sends. Pure.
 *
 * A lead alone does not mean that a client is too fast: the pacer takes a stall of the network for a pause, and all that was held up
 * comes ahead of what it then expects. So sound is compared with the time that has passed, too: a client that has sent no more is in
 * time. Nor does a small lead mean that a client is in time, because the pacer drops what is ahead: so the rate of each window counts.
 */
export class FlowWatch {
  readonly #tooFastAfterMs: number;
  #isOff = false;
  #inTimeAtMs: number | undefined;
  #firstAtMs: number | undefined;
  #atMs = -Infinity;
  #receivedMs = 0;
  /** Time that has passed less the sound that came in it, ms. */
  #creditMs = 0;
  /** Beginning of the window, and all sound that had come by then; its end, once the last piece of it has begun. */
  #window = { atMs: Infinity, receivedMs: 0, endsAtMs: Infinity };
  /** True if the sound of the last window came faster than real time. */
  #isFast = false;
  /** Audio that had been dropped, ms, when the client last was in time: at the end of a window in time, at `xon`, or after a pause as long as what was dropped since. */
  #excessInTimeMs = 0;

  /** @param tooFastAfterMs time for which audio must be ahead to exceed the limit */
  constructor(tooFastAfterMs: number) {
    this.#tooFastAfterMs = tooFastAfterMs;
  }

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
    if (nowMs > this.#window.endsAtMs) this.#endWindow(leadMs, excessMs);
    if (isSending && nowMs >= this.#window.atMs + WINDOW_MS) {
      this.#window.endsAtMs = Math.min(this.#window.endsAtMs, nowMs + PIECE_MS);
    }
    this.#balance(nowMs, receivedMs);
    const isOnTheWholeInTime = this.#creditMs >= -IN_TIME_MS;
    const isInTime = isOnTheWholeInTime || (leadMs < IN_TIME_MS && !this.#isFast);
    if (isInTime) this.#inTimeAtMs = nowMs;
    this.#inTimeAtMs ??= nowMs;
    const aheadForMs = nowMs - this.#inTimeAtMs;
    if (aheadForMs > this.#tooFastAfterMs && isSending) return 'exceeded';
    // The lead as the client made it: what the pacer has dropped of it counts, too.
    const madeMs = leadMs + excessMs - this.#excessInTimeMs;
    if (madeMs < 0) this.#excessInTimeMs = excessMs;
    if (!this.#isOff) {
      if (aheadForMs <= MAX_AHEAD_FOR_MS && madeMs <= MAX_LEAD_MS) return undefined;
      this.#isOff = true;
      return 'xoff';
    }
    if (leadMs >= GO_ON_MS || !isInTime) return undefined;
    this.#isOff = false;
    this.#excessInTimeMs = excessMs;
    return 'xon';
  }

  #balance(nowMs: number, receivedMs: number): void {
    // Sound that was held before it came here may be older than the last tick.
    const passedMs = Math.max(0, nowMs - this.#atMs);
    this.#atMs = Math.max(nowMs, this.#atMs);
    const creditMs = Math.min(MAX_BALANCE_MS, this.#creditMs + passedMs);
    this.#creditMs = Math.max(-MAX_BALANCE_MS, creditMs - (receivedMs - this.#receivedMs));
    this.#receivedMs = receivedMs;
    this.#firstAtMs ??= nowMs;
    // The first piece was recorded before it came: only what it holds beyond the longest one is too
    // early.
    if (nowMs <= this.#firstAtMs + PIECE_MS) {
      this.#creditMs = Math.min(0, MAX_LEAD_MS - receivedMs);
      this.#beginWindow(this.#firstAtMs + PIECE_MS);
    }
  }

  #endWindow(leadMs: number, excessMs: number): void {
    const { atMs, receivedMs, endsAtMs } = this.#window;
    this.#isFast = this.#receivedMs - receivedMs > (endsAtMs - atMs) * MAX_RATE;
    if (!this.#isFast) {
      this.#excessInTimeMs = excessMs;
      // A fast clock, or padding, that the pacer makes up for is forgiven.
      if (leadMs < MAX_PADDED_LEAD_MS) this.#creditMs = Math.max(0, this.#creditMs);
    }
    this.#beginWindow(endsAtMs);
  }

  #beginWindow(atMs: number): void {
    this.#window = { atMs, receivedMs: this.#receivedMs, endsAtMs: Infinity };
  }
}
