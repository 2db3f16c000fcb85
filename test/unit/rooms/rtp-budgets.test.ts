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

test('a producer in real time shares its budget with later ones of its peer', () => {
  const budgets = new RtpBudgets(5000);
  const held = budgets.of(1, 'ann', 0);
  for (let nowMs = 20; nowMs <= 10_000; nowMs += 20) held.charge(...PACKET, nowMs);
  budgets.of(1, 'bob', 10_050);
  expect(budgets.of(1, 'ann', 10_060)).toBe(held);
});

test('a budget that was full and is used again is kept', () => {
  const budgets = new RtpBudgets(5000);
  const held = budgets.of(1, 'ann', 0);
  budgets.of(1, 'bob', 10_000);
  budgets.of(1, 'bob', 20_000);
  expect(budgets.size).toBe(1);
  for (let packets = 0; packets < 400; packets += 1) held.charge(...PACKET, 29_999);
  budgets.of(1, 'bob', 30_000);
  expect(budgets.size).toBe(2);
});
