/**
 * 4 consecutive messages, each at least 60 ms late and within 30 ms of each other, mean that the sender paused; after a network
 * stall each is less late than the one before.
 */
const STEADY_MESSAGES = 4;
export const STEADILY_LATE_MS = 60;
const STEADY_WITHIN_MS = 30;

/** Tells a pause from a stall, from how far ahead of their time (late: below 0) the last messages came. Pure. */
export class SteadyLateness {
  /** In no order. */
  readonly #aheadMs = new Float64Array(STEADY_MESSAGES);
  #messages = 0;

  add(aheadMs: number): void {
    this.#aheadMs[this.#messages % STEADY_MESSAGES] = aheadMs;
    this.#messages += 1;
  }

  /** Takes a change of what is in time. */
  move(byMs: number): void {
    for (let i = 0; i < STEADY_MESSAGES; i += 1) this.#aheadMs[i]! += byMs;
  }

  /** How late the last messages are if they are steadily late, ms; else undefined. */
  get lateMs(): number | undefined {
    if (this.#messages < STEADY_MESSAGES) return undefined;
    const most = Math.max(...this.#aheadMs);
    const isSteady = most - Math.min(...this.#aheadMs) < STEADY_WITHIN_MS;
    return isSteady && -most >= STEADILY_LATE_MS ? -most : undefined;
  }
}
