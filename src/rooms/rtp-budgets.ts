import { RtpBudget } from '../bridge/rtp-budget.ts';

/** Interval at which full budgets that nothing holds are removed, ms. */
const SWEEP_EVERY_MS = 10_000;

/**
 * RTP budgets of the peers of this process. One is kept until it is full again and no producer holds it, so that a peer that joins or
 * connects anew goes on with the budget that it had, and all of its producers share one. Pure: the caller passes the time.
 */
export class RtpBudgets {
  readonly #endAfterMs: number;
  /** By account and peer. */
  readonly #budgets = new Map<string, RtpBudget>();
  /** Budgets that were full at the last sweep: those of producers that send in real time are, too. */
  readonly #full = new Map<string, WeakRef<RtpBudget>>();
  #sweptAtMs = -Infinity;

  /** @param endAfterMs time over its budget after which a sender is ended */
  constructor(endAfterMs: number) {
    this.#endAfterMs = endAfterMs;
  }

  /** Number of budgets that are kept although nothing holds them. */
  get size(): number {
    return this.#budgets.size;
  }

  /** Returns the budget of a peer, which all of its producers share, one after the other. */
  of(accountId: number, peer: string, nowMs: number): RtpBudget {
    if (nowMs - this.#sweptAtMs >= SWEEP_EVERY_MS) this.#sweep(nowMs);
    const key = `${accountId}:${peer}`;
    const budget = this.#budgets.get(key) ?? this.#full.get(key)?.deref() ?? this.open(nowMs);
    this.#budgets.set(key, budget);
    this.#full.delete(key);
    return budget;
  }

  /** Makes a budget that belongs to no peer of this process. */
  open(nowMs: number): RtpBudget {
    return new RtpBudget(this.#endAfterMs, nowMs);
  }

  #sweep(nowMs: number): void {
    this.#sweptAtMs = nowMs;
    for (const [key, held] of this.#full) {
      const budget = held.deref();
      if (budget?.isFull(nowMs)) continue;
      this.#full.delete(key);
      if (budget) this.#budgets.set(key, budget);
    }
    for (const [key, budget] of this.#budgets) {
      if (!budget.isFull(nowMs)) continue;
      this.#budgets.delete(key);
      this.#full.set(key, new WeakRef(budget));
    }
  }
}
