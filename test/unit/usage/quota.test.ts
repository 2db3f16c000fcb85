import { expect, test } from 'vitest';
import { Quota } from '../../../src/usage/quota.ts';
import { ACCOUNT, NOW_MS } from '../../support/usage.ts';

const MINUTE_MS = 60_000;

test('Quota warns once at each step of a month, and again in the next month', () => {
  const warned: [number, string][] = [];
  const quota = new Quota(
    { readMonthMs: async () => 0 },
    { wallMs: () => 0 },
    {
      onWarning: (_account, remaining, resetsAt) => warned.push([remaining, resetsAt.slice(0, 10)]),
      onExhausted: () => {},
    },
  );
  const use = (minutes: number, day: string) =>
    quota.update(7, 'free', minutes * MINUTE_MS, Date.parse(day));
  for (const minutes of [79, 80, 81, 95, 96, 99, 99.5]) use(minutes, '2026-11-20');
  for (const minutes of [85, 86]) use(minutes, '2026-12-20');
  expect(warned).toEqual([
    [20, '2026-12-01'],
    [5, '2026-12-01'],
    [1, '2026-12-01'],
    [15, '2027-01-01'],
  ]);
});

const HUNDRED_MINUTES_MS = 100 * 60_000;

function openQuota(usedMs: number) {
  const told: string[] = [];
  const usage = { readMonthMs: () => Promise.resolve(usedMs) };
  const quota = new Quota(
    usage,
    { wallMs: () => NOW_MS },
    {
      onWarning: () => told.push('warning'),
      onExhausted: (accountId, resetsAt) => told.push(`${accountId} until ${resetsAt}`),
    },
  );
  return { quota, told };
}

test('Quota.check() without minutes left reports that, although no report found the account in a room', async () => {
  const { quota, told } = openQuota(HUNDRED_MINUTES_MS);
  await expect(quota.check(ACCOUNT, 'free')).rejects.toMatchObject({ code: 'minutes_exhausted' });
  expect(told).toEqual([`${ACCOUNT} until 2026-12-01T00:00:00.000Z`]);
});

test.each([
  [79, []],
  [81, ['warning']],
])('Quota.check() with %i of 100 minutes used reports %j', async (minutes, expected) => {
  const { quota, told } = openQuota(minutes * 60_000);
  await quota.check(ACCOUNT, 'free');
  expect(told).toEqual(expected);
});
