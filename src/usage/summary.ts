import { type Static, Type } from 'typebox';
import type { Account } from '../accounts/accounts.ts';
import { PLANS } from '../accounts/plans.ts';
import type { CcuLeases } from './ccu-leases.ts';
import { remainingMinutes } from './quota.ts';
import type { UsageStore } from './usage-store.ts';

/** Figures of an account for `GET /api/me` (docs/protocol.md, "Meaning of the figures"). */
export const SummarySchema = Type.Object({
  total_minutes: Type.Number(),
  remaining_minutes: Type.Number(),
  current_ccu: Type.Integer(),
  max_ccu: Type.Integer(),
});

const MINUTE_MS = 60_000;

const twoDecimals = (minutes: number) => Math.round(minutes * 100) / 100;

/** @param wallMs now, by the clock of Redis. @throws {PartylineError} `overloaded` */
export async function readSummary(
  usage: Pick<UsageStore, 'readMonthMs'>,
  leases: CcuLeases,
  account: Account,
  wallMs: number,
): Promise<Static<typeof SummarySchema>> {
  const [usedMs, currentCcu] = await Promise.all([
    usage.readMonthMs(account.id, wallMs),
    leases.count(account.id),
  ]);
  const totalMinutes = twoDecimals(usedMs / MINUTE_MS);
  // Rounded apart, both would round up: 0.01 used of 100, and 100 left.
  const remaining = remainingMinutes(account.plan, totalMinutes * MINUTE_MS);
  return {
    total_minutes: totalMinutes,
    remaining_minutes: twoDecimals(remaining),
    current_ccu: currentCcu,
    max_ccu: PLANS[account.plan].maxCcu,
  };
}
