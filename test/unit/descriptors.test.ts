import { closeSync, openSync } from 'node:fs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { Descriptors, reserveOf } from '../../src/load/descriptors.ts';
import { silentLog } from '../support/gateway.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('reserveOf() is a tenth, within bounds', () => {
  expect([160, 1024, 65_536].map(reserveOf)).toEqual([32, 102, 512]);
});

test('Descriptors lets in as many as leave the reserve, and nobody when that is touched', () => {
  let open = 50;
  const free: number[] = [];
  const onFree = (count: number) => free.push(count);
  const descriptors = new Descriptors(silentLog, DEFAULT_TIMINGS.load, onFree, 160, () => open);
  const after = (count: number) => {
    open = count;
    vi.advanceTimersByTime(1000);
    return descriptors.isShort;
  };
  expect([after(50), after(128), after(129), after(120), after(112), after(128)]).toEqual([
    false,
    false,
    true,
    true,
    false,
    false,
  ]);
  expect(free).toEqual([78, 0, 0, 8, 16, 0]);
  descriptors.check();
  after(160);
  expect(() => descriptors.check()).toThrow(
    expect.objectContaining({ code: 'overloaded', retryAfterMs: 5000 }),
  );
  descriptors.close();
  expect(vi.getTimerCount()).toBe(0);
});

test('Descriptors counts those of this process', () => {
  const free: number[] = [];
  const descriptors = new Descriptors(silentLog, DEFAULT_TIMINGS.load, (count) => free.push(count));
  descriptors.sample();
  const files = Array.from({ length: 10 }, () => openSync('/dev/null', 'r'));
  descriptors.sample();
  for (const file of files) closeSync(file);
  descriptors.close();
  // Whatever else this process reads may be closed meanwhile.
  expect(free[0]! - free[1]!).toBeGreaterThanOrEqual(5);
});
