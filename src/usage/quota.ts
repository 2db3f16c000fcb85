import type { Account } from '../accounts/accounts.ts';
import { PLANS, UNLIMITED_MINUTES } from '../accounts/plans.ts';
import { PartylineError } from '../protocol/errors.ts';
import { monthOf } from './meter.ts';
import type { RedisClock } from '../store/redis-clock.ts';
import type { RecentUsage } from './recent-usage.ts';

const MINUTE_MS = 60_000;
/** Remaining minutes at which a client is warned: shares of the plan's minutes, and then one minute. */
const WARN_AT_SHARES = [0.2, 0.05];

export type QuotaEvents = {
  /** Called once for each step of remaining minutes of the month. */
  onWarning: (accountId: number, remainingMinutes: number, resetsAt: string) => void;
  /** Called each time the account is found without minutes: after its usage was written, and when a peer wants to join. */
  onExhausted: (accountId: number, resetsAt: string) => void;
};

/** Returns the remaining peer-minutes of a month, at least 0; a very large number on a plan without a limit. */
export function remainingMinutes(plan: Account['plan'], usedMs: number): number {
  const { minutesPerMonth } = PLANS[plan];
  if (minutesPerMonth === undefined) return UNLIMITED_MINUTES;
  return Math.max(0, minutesPerMonth - usedMs / MINUTE_MS);
}

/** Returns the fault that the month's minutes are used up until a time (ISO 8601). */
export function minutesExhausted(until: string): PartylineError {
  const message = `The minutes of this month are used up; new ones are available from ${until.slice(0, 10)} (UTC) on.`;
  return new PartylineError('minutes_exhausted', message, { resetsAt: until });
}

/** Returns when the account has minutes again: the first of the next month, UTC. */
function resetsAt(wallMs: number): string {
  const now = new Date(wallMs);
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)).toISOString();
}

/** Watches the remaining minutes of accounts. */
export class Quota {
  readonly #usage: Pick<RecentUsage, 'readMonthMs'>;
  readonly #clock: Pick<RedisClock, 'wallMs'>;
  readonly #events: QuotaEvents;
  /** Month, number of steps that were warned of, and whether no minutes are left, by account. */
  readonly #known = new Map<number, { month: string; steps: number; isExhausted: boolean }>();

  constructor(
    usage: Pick<RecentUsage, 'readMonthMs'>,
    clock: Pick<RedisClock, 'wallMs'>,
    events: QuotaEvents,
  ) {
    this.#usage = usage;
    this.#clock = clock;
    this.#events = events;
  }

  /** Notes the usage of an account in the month of a time. */
  update(accountId: number, plan: Account['plan'], usedMs: number, wallMs: number): void {
    const { minutesPerMonth } = PLANS[plan];
    const month = monthOf(wallMs);
    const before = this.#known.get(accountId);
    const remaining = remainingMinutes(plan, usedMs);
    const isExhausted = remaining === 0;
    const steps = minutesPerMonth === undefined ? 0 : stepsBelow(remaining, minutesPerMonth);
    this.#known.set(accountId, { month, steps, isExhausted });
    if (isExhausted) {
      this.#events.onExhausted(accountId, resetsAt(wallMs));
    } else if (steps > (before?.month === month ? before.steps : 0)) {
      this.#events.onWarning(accountId, remaining, resetsAt(wallMs));
    }
  }

  /**
   * Checks that a peer may join a room.
   * @throws {PartylineError} `minutes_exhausted`; while Redis is disconnected, by the last known usage
   */
  async check(accountId: number, plan: Account['plan']): Promise<void> {
    if (PLANS[plan].minutesPerMonth === undefined) return;
    const wallMs = this.#clock.wallMs();
    if (await this.#isExhausted(accountId, plan, wallMs)) throw minutesExhausted(resetsAt(wallMs));
  }

  async #isExhausted(accountId: number, plan: Account['plan'], wallMs: number): Promise<boolean> {
    try {
      const usedMs = await this.#usage.readMonthMs(accountId, wallMs);
      // Calls that are shorter than the interval of reports leave no peer that a report would find.
      this.update(accountId, plan, usedMs, wallMs);
      return remainingMinutes(plan, usedMs) === 0;
    } catch (fault) {
      if (PartylineError.from(fault).code !== 'overloaded') throw fault;
      const known = this.#known.get(accountId);
      return known?.month === monthOf(wallMs) && known.isExhausted;
    }
  }
}

function stepsBelow(remaining: number, minutesPerMonth: number): number {
  const steps = [...WARN_AT_SHARES.map((share) => share * minutesPerMonth), 1];
  return steps.filter((step) => remaining <= step).length;
}
