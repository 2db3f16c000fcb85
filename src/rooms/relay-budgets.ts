import { TokenBucket } from '../token-bucket.ts';

/**
 * Rate of messages of unknown formats that this process delivers for one account: that of one peer that sends
 * 50 a second to the 500 peers of a large room, about a third of a core. A message of 4 KiB counts twice.
 */
const RATE = { perSecond: 30_000, burst: 30_000 };
/** Interval at which full buckets are removed. */
const SWEEP_EVERY_MS = 60_000;

/** Budgets of accounts for the delivery of relayed messages. Pure: the caller passes the time. */
export class RelayBudgets {
  readonly #buckets = new Map<number, TokenBucket>();
  #sweptAtMs = -Infinity;

  /** @returns true if the budget covered the cost */
  charge(accountId: number, cost: number, nowMs: number): boolean {
    if (nowMs - this.#sweptAtMs >= SWEEP_EVERY_MS) this.#sweep(nowMs);
    let bucket = this.#buckets.get(accountId);
    if (!bucket) {
      bucket = new TokenBucket(RATE, nowMs);
      this.#buckets.set(accountId, bucket);
    }
    if (bucket.balance(nowMs) < cost) return false;
    bucket.spend(cost, nowMs);
    return true;
  }

  #sweep(nowMs: number): void {
    this.#sweptAtMs = nowMs;
    for (const [accountId, bucket] of this.#buckets) {
      if (bucket.isFull(nowMs)) this.#buckets.delete(accountId);
    }
  }
}
