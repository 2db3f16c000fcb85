import { AccountBudgets } from '../accounts/account-budgets.ts';
import type { Account } from '../accounts/accounts.ts';
import type { Rate } from '../token-bucket.ts';

const MINUTE_S = 60;

/**
 * Rate of counts of rooms of an account by one process: each room has one in each minute. More
 * than a plan needs is not kept in Redis. All clients of a plan may each enter a room every 3 s for 90 s without meeting it.
 */
export const roomCountRate = (maxCcu: number): Rate => ({
  perSecond: (20 + 4 * maxCcu) / MINUTE_S,
  burst: 100 + 20 * maxCcu,
});

/**
 * Returns a function that takes a count of a room from the budget of an account, and returns false if there is none left.
 * @param accountOf returns an account that has clients here
 */
export function roomCountsWithin(
  accountOf: (accountId: number) => Pick<Account, 'id' | 'plan'> | undefined,
): (accountId: number, nowMs: number) => boolean {
  const budgets = new AccountBudgets(roomCountRate);
  return (accountId, nowMs) => {
    const account = accountOf(accountId);
    // Without a client there is no room to enter.
    return !account || budgets.of(account, nowMs).take(1, nowMs) >= 0;
  };
}
