/** Limit of a rate: `perSecond` tokens are added each second, up to `burst`. */
export type Rate = { perSecond: number; burst: number };

/** Token bucket. Pure: the caller passes the time (`performance.now()`, ms), which never goes back. */
export class TokenBucket {
  readonly #rate: Rate;
  #tokens: number;
  #atMs: number;

  /** Creates a full bucket. */
  constructor(rate: Rate, nowMs: number) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#atMs = nowMs;
  }

  /** Returns the tokens left; negative after more were spent than there were. */
  balance(nowMs: number): number {
    const { perSecond, burst } = this.#rate;
    const elapsedMs = Math.max(0, nowMs - this.#atMs);
    return Math.min(burst, this.#tokens + (elapsedMs / 1000) * perSecond);
  }

  /** Returns the time until `cost` tokens are available, ms; 0 if they are. A cost above the burst needs a full bucket. */
  waitMs(cost: number, nowMs: number): number {
    const missing = Math.min(cost, this.#rate.burst) - this.balance(nowMs);
    return missing <= 0 ? 0 : (missing / this.#rate.perSecond) * 1000;
  }

  /** Spends tokens, even if that makes the bucket negative. */
  spend(cost: number, nowMs: number): void {
    this.#tokens = this.balance(nowMs) - cost;
    this.#atMs = nowMs;
  }

  /** Spends tokens if there are as many. @returns the balance less the cost; if it is negative, nothing was spent */
  take(cost: number, nowMs: number): number {
    const left = this.balance(nowMs) - cost;
    if (left < 0) return left;
    this.#tokens = left;
    this.#atMs = nowMs;
    return left;
  }

  isFull(nowMs: number): boolean {
    return this.balance(nowMs) >= this.#rate.burst;
  }
}
