import type { UsageStore } from './usage-store.ts';

/** `/api/me` may be 10 s old; adding up the open minutes of a large account is worth doing once in a while. */
const FRESH_MS = 1000;

/** What accounts have used, as it was a moment ago; asked for at once by many, it is read once. */
export class RecentUsage {
  readonly #store: UsageStore;
  readonly #reads = new Map<number, { usedMs: Promise<number>; atMs: number }>();

  constructor(store: UsageStore) {
    this.#store = store;
  }

  /** As `UsageStore.readMonthMs`, but up to a second old. @throws {PartylineError} `overloaded` */
  readMonthMs(accountId: number, wallMs: number): Promise<number> {
    const nowMs = performance.now();
    for (const [known, { atMs }] of this.#reads) {
      if (nowMs - atMs >= FRESH_MS) this.#reads.delete(known);
    }
    const known = this.#reads.get(accountId);
    if (known) return known.usedMs;
    const usedMs = this.#store.readMonthMs(accountId, wallMs);
    this.#reads.set(accountId, { usedMs, atMs: nowMs });
    // What failed is asked for again.
    usedMs.catch(() => this.#reads.delete(accountId));
    return usedMs;
  }
}
