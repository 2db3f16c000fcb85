import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { type LastUsage, secondsIn, splitByAge } from './last-usage.ts';
import type { Meter, MeterClock, MinuteCount } from './meter.ts';
import { COUNTS_AT_ONCE, type UsageStore } from './usage-store.ts';

/** Parts that a reporter reads and writes. */
type ReporterParts = { meter: Meter; store: UsageStore; last: LastUsage; clock: MeterClock };

/** Writes the counts of this process, and reports the total usage of accounts that have peers here, or had some since the last report. */
export class UsageReporter {
  readonly #meter: Meter;
  readonly #store: UsageStore;
  readonly #last: LastUsage;
  readonly #log: FastifyBaseLogger;
  readonly #clock: MeterClock;
  readonly #onTotal: (accountId: number, monthMs: number, wallMs: number) => void;
  readonly #timer: NodeJS.Timeout;
  #writing: Promise<void> | undefined;
  /** False if Redis did not take the last counts, or could not be asked to. */
  #isStoreWell = true;

  constructor(
    { meter, store, last, clock }: ReporterParts,
    log: FastifyBaseLogger,
    onTotal: (accountId: number, monthMs: number, wallMs: number) => void,
    timings: Timings['usage'],
  ) {
    this.#meter = meter;
    this.#store = store;
    this.#last = last;
    this.#log = log;
    this.#onTotal = onTotal;
    this.#clock = clock;
    this.#timer = setInterval(() => void this.report(), timings.writeEveryMs);
  }

  /** Writes now; if Redis is disconnected, the next time. */
  async report(): Promise<void> {
    // The meter does not count long steps whole, and a write may hang for longer than the interval.
    if (this.#writing) this.#meter.accrue();
    // One after the other: a write that hangs must not overtake the next.
    this.#writing ??= this.#report().finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  /** Writes the remaining counts, or leaves them to the next start. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#writing;
    const recent = this.#giveUpOld(this.#meter.take());
    if (recent.length > 0) await this.#last.write(recent, this.#isStoreWell);
  }

  async #report(): Promise<void> {
    if (!this.#store.isReady) {
      this.#isStoreWell = false;
      // The disconnection has been logged. The backlog of a long outage is not put together in
      // vain.
      this.#meter.accrue();
      return;
    }
    // Peers that came and left since the last report have used minutes, too.
    const used = new Set(this.#meter.activeAccounts());
    try {
      // A Redis that answers may still refuse writes: the whole backlog is put together when it has
      // taken a part.
      if (!this.#isStoreWell) await this.#write(this.#meter.take(COUNTS_AT_ONCE), used);
      await this.#write(this.#meter.take(), used);
      this.#isStoreWell = true;
      const wallMs = this.#clock.wallMs();
      await Promise.all(
        [...used].map(async (accountId) => {
          this.#onTotal(accountId, await this.#store.readMonthMs(accountId, wallMs), wallMs);
        }),
      );
      if (this.#last.hasLeft) await this.#last.writeLeft(wallMs);
    } catch (fault) {
      this.#isStoreWell = false;
      this.#log.warn({ err: fault }, 'usage not written; retrying');
    }
  }

  async #write(minuteCounts: MinuteCount[], used: Set<number>): Promise<void> {
    const recent = this.#giveUpOld(minuteCounts);
    for (const { accountId } of recent) used.add(accountId);
    await this.#store.write(recent, (part) => this.#meter.written(part));
  }

  /**
   * Gives up the counts that are too old to be written. A count is that of its whole minute here, of which a part may be written already,
   * so that the logged seconds are the most that can be lost.
   * @returns the others
   */
  #giveUpOld(minuteCounts: MinuteCount[]): MinuteCount[] {
    const { recent, old } = splitByAge(minuteCounts, this.#clock.wallMs());
    if (old.length === 0) return recent;
    this.#meter.written(old);
    this.#log.error({ peerSeconds: secondsIn(old) }, 'usage lost: older than 47 hours');
    return recent;
  }
}
