/** Length of a window, ms. A lead that stays the same for two windows is not jitter but the sender's clock. */
export const WINDOW_MS = 500;
/**
 * 4 consecutive messages, each at least 60 ms late and within 30 ms of each other, mean that the sender paused; after a network
 * stall each is less late than the one before.
 */
const STEADY_MESSAGES = 4;
export const STEADILY_LATE_MS = 60;
const STEADY_WITHIN_MS = 30;

/**
 * Leads of messages over their due time, ms (negative if late): minimum and maximum of the last one to two
 * windows, and the last four. Pure.
 */
export class LeadHistory {
  #minBefore = Infinity;
  #maxBefore = -Infinity;
  #min = Infinity;
  #max = -Infinity;
  #endsAtMs: number | undefined;
  #isFull = false;
  /** Leads of the last messages, in no order. */
  readonly #last = new Float64Array(STEADY_MESSAGES);
  #messages = 0;

  /** Minimum lead, ms; −Infinity until a window has passed. */
  get minMs(): number {
    return this.#isFull ? Math.min(this.#minBefore, this.#min) : -Infinity;
  }

  /** Maximum lead, ms; Infinity until a window has passed. */
  get maxMs(): number {
    return this.#isFull ? Math.max(this.#maxBefore, this.#max) : Infinity;
  }

  /** Lateness of the last messages if they are steadily late, ms, otherwise undefined: distinguishes a pause from a stall. */
  get steadilyLateMs(): number | undefined {
    if (this.#messages < STEADY_MESSAGES) return undefined;
    const most = Math.max(...this.#last);
    const isSteady = most - Math.min(...this.#last) < STEADY_WITHIN_MS;
    return isSteady && -most >= STEADILY_LATE_MS ? -most : undefined;
  }

  /** @returns true if a window has ended */
  tick(nowMs: number): boolean {
    this.#endsAtMs ??= nowMs + WINDOW_MS;
    if (nowMs < this.#endsAtMs) return false;
    this.#endsAtMs = nowMs + WINDOW_MS;
    this.#minBefore = this.#min;
    this.#maxBefore = this.#max;
    this.#min = Infinity;
    this.#max = -Infinity;
    this.#isFull = Number.isFinite(this.#minBefore);
    return this.#isFull;
  }

  add(leadMs: number): void {
    this.#min = Math.min(this.#min, leadMs);
    this.#max = Math.max(this.#max, leadMs);
    this.#last[this.#messages % STEADY_MESSAGES] = leadMs;
    this.#messages += 1;
  }

  /** Shifts all leads after a change of the due time. */
  move(byMs: number): void {
    this.#minBefore += byMs;
    this.#maxBefore += byMs;
    this.#min += byMs;
    this.#max += byMs;
    for (let i = 0; i < STEADY_MESSAGES; i += 1) this.#last[i]! += byMs;
  }
}
