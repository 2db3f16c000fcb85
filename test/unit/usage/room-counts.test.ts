import { expect, test } from 'vitest';
import { PLANS } from '../../../src/accounts/plans.ts';
import { MAX_ROOMS_A_MINUTE } from '../../../src/usage/meter.ts';
import { roomCountRate, roomCountsWithin } from '../../../src/usage/room-counts.ts';

const MINUTE_MS = 60_000;

/** Enters rooms at intervals. @returns the number of rooms that are counted separately, and of those that are not */
function enterRooms(plan: keyof typeof PLANS, everyMs: number, forMs: number) {
  const mayCount = roomCountsWithin((id) => ({ id, plan }));
  const seen = { counted: 0, others: 0 };
  for (let nowMs = 0; nowMs < forMs; nowMs += everyMs) {
    if (mayCount(7, nowMs)) seen.counted += 1;
    else seen.others += 1;
  }
  return seen;
}

test('a free client that enters a room every 3 s all day does not meet the budget, and is in each at the turn of a minute', () => {
  const counts = MINUTE_MS / 21;
  expect(enterRooms('free', counts, 24 * 60 * MINUTE_MS).others).toBe(0);
});

test('all clients of a limited plan that each enter a room every 3 s do not meet the budget for 90 s', () => {
  for (const plan of ['free', 'starter'] as const) {
    const { others } = enterRooms(plan, 3000 / PLANS[plan].maxCcu, 90_000);
    expect({ plan, others }).toEqual({ plan, others: 0 });
  }
});

test('of a flood a day has no more than the burst and the rate', () => {
  const { burst, perSecond } = roomCountRate(PLANS.free.maxCcu);
  const { counted } = enterRooms('free', 145, 24 * 60 * MINUTE_MS);
  expect(counted).toBeGreaterThan(86_400 * perSecond);
  expect(counted).toBeLessThanOrEqual(burst + 86_400 * perSecond);
});

test('a pro account has no less than the maximum of a minute', () => {
  const { burst, perSecond } = roomCountRate(PLANS.pro.maxCcu);
  expect(Math.min(burst, 60 * perSecond)).toBeGreaterThanOrEqual(MAX_ROOMS_A_MINUTE);
});

test('accounts have budgets of their own, and one without a client here has none', () => {
  const mayCount = roomCountsWithin((id) => (id === 9 ? undefined : { id, plan: 'free' }));
  const most = (accountId: number) => {
    let counted = 0;
    while (counted < 1000 && mayCount(accountId, 0)) counted += 1;
    return counted;
  };
  expect([most(7), most(8), most(7), most(9)]).toEqual([200, 200, 0, 1000]);
});
