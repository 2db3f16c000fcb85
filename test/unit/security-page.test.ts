import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { AccountBudgets } from '../../src/accounts/account-budgets.ts';
import { connectRate } from '../../src/accounts/connection-budget.ts';
import { PLANS } from '../../src/accounts/plans.ts';
import { accountRate, costOf } from '../../src/session/message-budget.ts';

/** Figures of SECURITY.md that follow from several budgets, worked out from their settings. */

const PAGE = readFileSync(join(import.meta.dirname, '../../SECURITY.md'), 'utf8');

/** Returns the value of a budget in its table. */
function valueOf(budget: string): string {
  const row = PAGE.split('\n').find((line) => line.startsWith(`| ${budget} |`));
  return row?.split(' | ')[1] ?? '';
}

describe('rooms that an account opens', () => {
  const [perMinute, atOnce] = valueOf('rooms that an account opens')
    .match(/(\d+), (\d+) or (\d+) (a minute|at once)/g)!
    .map((figures) => figures.match(/\d+/g)!.map(Number));
  const plans = (['free', 'starter', 'pro'] as const).map(
    (plan, index) => [plan, perMinute![index]!, atOnce![index]!] as const,
  );
  const STEP_MS = 10;
  const joinCost = costOf({ type: 'join', room: 'a' }, 0);

  /** Opens rooms for as long as the budgets of connections and of text messages allow it. @returns their number */
  function openRooms(plan: keyof typeof PLANS, forMs: number): number {
    const account = { id: 1, plan };
    const [connections, messages] = [
      new AccountBudgets(connectRate),
      new AccountBudgets(accountRate),
    ];
    let rooms = 0;
    for (let nowMs = 0; nowMs <= forMs; nowMs += STEP_MS) {
      // A session of WHIP opens a room without a message.
      while (connections.of(account, nowMs).take(1, nowMs) >= 0) rooms += 1;
      while (messages.of(account, nowMs).take(joinCost, nowMs) >= 0) rooms += 1;
    }
    return rooms;
  }

  test.each(plans)('%s: %i a minute, and %i at once', (plan, wantedPerMinute, wantedAtOnce) => {
    expect(openRooms(plan, 0)).toBe(wantedAtOnce);
    const inAMinute = openRooms(plan, 60_000) - wantedAtOnce;
    // The last of them may come a moment later.
    expect(inAMinute).toBeLessThanOrEqual(wantedPerMinute);
    expect(inAMinute).toBeGreaterThanOrEqual(wantedPerMinute - 2);
  });
});
