import { expect, test } from 'vitest';
import type { Account } from '../../../src/accounts/accounts.ts';
import type { CcuLeases } from '../../../src/usage/ccu-leases.ts';
import { readSummary } from '../../../src/usage/summary.ts';

const read = (plan: Account['plan'], usedMs: number) =>
  readSummary(
    { readMonthMs: () => Promise.resolve(usedMs) },
    { count: () => Promise.resolve(2) } as unknown as CcuLeases,
    { id: 1, plan } as Account,
    0,
  );

test.each([
  ['free', 0, 0, 100],
  ['free', 299, 0, 100],
  ['free', 300, 0.01, 99.99],
  ['free', 4_350_300, 72.51, 27.49],
  ['free', 6_000_000, 100, 0],
  ['free', 7_000_000, 116.67, 0],
  ['starter', 1_000_500, 16.68, 983.32],
  ['pro', 300, 0.01, 1_000_000_000],
] as const)('%s with %i ms used: %d minutes, and %d left', async (plan, usedMs, total, left) => {
  const summary = await read(plan, usedMs);
  expect(summary).toMatchObject({ total_minutes: total, remaining_minutes: left, current_ccu: 2 });
});

test('the two figures add up to the minutes of the plan, after any use', async () => {
  for (let usedMs = 0; usedMs <= 6_000_000; usedMs += 1237) {
    const summary = await read('free', usedMs);
    const cents = summary.total_minutes * 100 + summary.remaining_minutes * 100;
    expect(cents).toBeCloseTo(10_000, 6);
  }
});
