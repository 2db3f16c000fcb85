import { type Rate, TokenBucket } from '../token-bucket.ts';
import type { Account } from './accounts.ts';
import { PLANS } from './plans.ts';

/** Interval at which full buckets are removed, ms, so that idle accounts take no memory. */
const SWEEP_EVERY_MS = 60_000;

/** Token buckets of accounts in the memory of this process. An account without a bucket counts as one with a full bucket. */
export class AccountBudgets {
  readonly #rateOf: (maxCcu: number) => Rate;
  readonly #buckets = new Map<number, { bucket: TokenBucket; plan: Account['plan'] }>();
  #sweptAtMs = -Infinity;

  /** @param rateOf returns the rate of an account that may have `maxCcu` connections */
  constructor(rateOf: (maxCcu: number) => Rate) {
    this.#rateOf = rateOf;
  }

  /** Number of accounts that have a bucket. */
  get size(): number {
    return this.#buckets.size;
  }

  /** Returns the bucket of an account; a change of its subscription plan gives it a new one. */
  of({ id, plan }: Pick<Account, 'id' | 'plan'>, nowMs: number): TokenBucket {
    if (nowMs - this.#sweptAtMs >= SWEEP_EVERY_MS) this.#sweep(nowMs);
    const known = this.#buckets.get(id);
    if (known?.plan === plan) return known.bucket;
    const bucket = new TokenBucket(this.#rateOf(PLANS[plan].maxCcu), nowMs);
    this.#buckets.set(id, { bucket, plan });
    return bucket;
  }

  #sweep(nowMs: number): void {
    this.#sweptAtMs = nowMs;
    for (const [id, { bucket }] of this.#buckets) {
      if (bucket.isFull(nowMs)) this.#buckets.delete(id);
    }
  }
}
