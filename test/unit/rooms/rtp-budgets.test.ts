import { expect, test } from 'vitest';
import { RtpBudgets } from '../../../src/rooms/rtp-budgets.ts';

/** Samples of a packet of 20 ms, and its bytes. */
const PACKET = [960, 200] as const;

test.each([Infinity, 4900])(
  'a peer that sends 1000 packets a second is ended, also if it joins anew every %i ms',
  (joinsEveryMs) => {
    const budgets = new RtpBudgets(5000);
    let passed = 0;
    let budget = budgets.of(1, 'mallory', 0);
    let endedAtMs = Infinity;
    for (let nowMs = 0; nowMs < 60_000 && endedAtMs === Infinity; nowMs += 1) {
      if (nowMs % joinsEveryMs === 0) budget = budgets.of(1, 'mallory', nowMs);
      const verdict = budget.charge(...PACKET, nowMs);
      if (verdict === 'pass') passed += 1;
      if (verdict === 'end') endedAtMs = nowMs;
    }
    expect(endedAtMs).toBeLessThan(6000);
    expect(passed).toBeLessThan(1000);
  },
);

test('peers of one name in two accounts have budgets of their own', () => {
  const budgets = new RtpBudgets(5000);
  expect(budgets.of(1, 'ann', 0)).not.toBe(budgets.of(2, 'ann', 0));
});

test('budgets are kept only while something of them is used', () => {
  const budgets = new RtpBudgets(5000);
  const used = budgets.of(1, 'ann', 0);
  budgets.of(1, 'bob', 0);
  for (let packets = 0; packets < 1000; packets += 1) used.charge(...PACKET, 9999);
  budgets.of(1, 'carl', 10_000);
  expect(budgets.size).toBe(2);
  expect(budgets.of(1, 'ann', 10_000)).toBe(used);
  budgets.of(1, 'carl', 30_000);
  expect(budgets.size).toBe(1);
});
