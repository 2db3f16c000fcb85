import { RtpBudget } from '../bridge/rtp-budget.ts';

/** Interval at which full budgets are removed, ms. */
const SWEEP_EVERY_MS = 10_000;

/**
 * RTP budgets of the peers of this process. One is kept until it is full again, so that a peer that joins or connects anew goes on with
 * the budget that it had. Pure: the caller passes the time.
 */
export class RtpBudgets {
  readonly #endAfterMs: number;
  /** By account and peer. */
  readonly #budgets = new Map<string, RtpBudget>();
  #sweptAtMs = -Infinity;

  /** @param endAfterMs time over its budget after which a sender is ended */
  constructor(endAfterMs: number) {
    this.#endAfterMs = endAfterMs;
  }

  /** Number of peers that have a budget. */
  get size(): number {
    return this.#budgets.size;
  }

  /** Returns the budget of a peer, which all of its producers share, one after the other. */
  of(accountId: number, peer: string, nowMs: number): RtpBudget {
    if (nowMs - this.#sweptAtMs >= SWEEP_EVERY_MS) this.#sweep(nowMs);
    const key = `${accountId}:${peer}`;
    const budget = this.#budgets.get(key) ?? this.open(nowMs);
    this.#budgets.set(key, budget);
    return budget;
  }

  /** Makes a budget that belongs to no peer of this process. */
  open(nowMs: number): RtpBudget {
    return new RtpBudget(this.#endAfterMs, nowMs);
  }

  #sweep(nowMs: number): void {
    this.#sweptAtMs = nowMs;
    for (const [key, budget] of this.#budgets) if (budget.isFull(nowMs)) this.#budgets.delete(key);
  }
}
