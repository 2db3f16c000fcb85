import type { Timings } from '../../config/timings.ts';
import { monthOf } from './meter.ts';
import type { UsageStore } from './usage-store.ts';

/** Usage of accounts, up to `freshMs` old; concurrent requests share one read. */
export class RecentUsage {
  readonly #store: UsageStore;
  readonly #freshMs: number;
  /** Reads by account and month, the oldest first. */
  readonly #reads = new Map<string, { usedMs: Promise<number>; atMs: number }>();

  constructor(store: UsageStore, { freshMs }: Timings['usage']) {
    this.#store = store;
    this.#freshMs = freshMs;
  }

  /** As `UsageStore.readMonthMs`, but up to `freshMs` old. @throws {PartylineError} `overloaded` */
  readMonthMs(accountId: number, wallMs: number): Promise<number> {
    const nowMs = performance.now();
    for (const [known, { atMs }] of this.#reads) {
      if (nowMs - atMs < this.#freshMs) break;
      this.#reads.delete(known);
    }
    const key = `${accountId}|${monthOf(wallMs)}`;
    const known = this.#reads.get(key);
    if (known) return known.usedMs;
    const read = { usedMs: this.#store.readMonthMs(accountId, wallMs), atMs: nowMs };
    this.#reads.set(key, read);
    read.usedMs.catch(() => {
      // A failed read is not kept.
      if (this.#reads.get(key) === read) this.#reads.delete(key);
    });
    return read.usedMs;
  }

  /** Notes the usage of a month that was just read. */
  learn(accountId: number, wallMs: number, usedMs: number): void {
    const key = `${accountId}|${monthOf(wallMs)}`;
    this.#reads.delete(key);
    this.#reads.set(key, { usedMs: Promise.resolve(usedMs), atMs: performance.now() });
  }
}
