import { expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { RecentUsage } from '../../../src/usage/recent-usage.ts';
import type { UsageStore } from '../../../src/usage/usage-store.ts';

const NOW_MS = Date.parse('2026-11-01T12:00:00Z');

test('RecentUsage reads once for many, and knows at once what it is told', async () => {
  let reads = 0;
  const readMonthMs = async () => {
    reads += 1;
    return 1000;
  };
  const recent = new RecentUsage({ readMonthMs } as unknown as UsageStore, DEFAULT_TIMINGS.usage);
  const read = () => recent.readMonthMs(7, NOW_MS);
  expect(await Promise.all([read(), read()])).toEqual([1000, 1000]);
  recent.learn(7, NOW_MS, 6_000_000);
  expect(await read()).toBe(6_000_000);
  expect(await recent.readMonthMs(8, NOW_MS)).toBe(1000);
  expect(reads).toBe(2);
});

test('RecentUsage does not keep a read that failed', async () => {
  const answers = [Promise.reject(new Error('redis disconnected')), Promise.resolve(1000)];
  const store = { readMonthMs: () => answers.shift() };
  const recent = new RecentUsage(store as unknown as UsageStore, DEFAULT_TIMINGS.usage);
  await expect(recent.readMonthMs(7, NOW_MS)).rejects.toThrow('redis disconnected');
  expect(await recent.readMonthMs(7, NOW_MS)).toBe(1000);
});
