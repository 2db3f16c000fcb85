import { type Static, Type } from 'typebox';
import type { Account } from '../accounts/accounts.ts';
import { PLANS, UNLIMITED_MINUTES } from '../accounts/plans.ts';
import type { Redis } from '../store/redis.ts';
import type { CcuLeases } from './ccu-leases.ts';
import { readMonthMinutes } from './minutes.ts';

/** The figures of an account, as `GET /api/me` gives them (docs/protocol.md, "Meaning of the figures"). */
export const SummarySchema = Type.Object({
  total_minutes: Type.Number(),
  remaining_minutes: Type.Number(),
  current_ccu: Type.Integer(),
  max_ccu: Type.Integer(),
});

const twoDecimals = (minutes: number) => Math.round(minutes * 100) / 100;

/** @throws {PartylineError} `overloaded` */
export async function readSummary(
  redis: Redis,
  leases: CcuLeases,
  account: Account,
): Promise<Static<typeof SummarySchema>> {
  const { maxCcu, minutesPerMonth } = PLANS[account.plan];
  const [minutes, currentCcu] = await Promise.all([
    readMonthMinutes(redis, account.id, new Date()),
    leases.count(account.id),
  ]);
  return {
    total_minutes: twoDecimals(minutes),
    remaining_minutes:
      minutesPerMonth === undefined
        ? UNLIMITED_MINUTES
        : twoDecimals(Math.max(0, minutesPerMonth - minutes)),
    current_ccu: currentCcu,
    max_ccu: maxCcu,
  };
}
