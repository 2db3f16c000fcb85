import { expect, test } from 'vitest';
import { Arrivals, bestMomentMs } from '../../../../src/audio/mixing/arrivals.ts';

test('the moment after which none waits long is the one before the longest pause', () => {
  expect(bestMomentMs([])).toBeUndefined();
  expect(bestMomentMs([7])).toBe(7);
  expect(bestMomentMs([1, 5, 103])).toBe(5);
  expect(bestMomentMs([18, 2])).toBe(2);
});

test('packets wait as long as the last of them comes late', () => {
  const arrivals = new Arrivals();
  expect([arrivals.waitMs(0), arrivals.lastMs]).toEqual([undefined, undefined]);
  for (const atMs of [0, 21, 43, 60]) arrivals.add(atMs * 48, atMs);
  expect(arrivals.waitMs(70)).toBeCloseTo(7);
  expect(arrivals.lastMs).toBe(60);
  // Packets of long ago do not count.
  for (let atMs = 80; atMs < 260; atMs += 20) arrivals.add(atMs * 48, atMs);
  expect(arrivals.waitMs(270)).toBeCloseTo(10);
});

test('the pace of a client that sends 120 ms in one message: six packets at once, each less late than the one before', () => {
  const arrivals = new Arrivals();
  expect(arrivals.pace).toBeUndefined();
  // Before a pause of a second by the clock only: it tells nothing.
  arrivals.add(0, -1000);
  for (let i = 0; i < 7; i += 1) arrivals.add(i * 960, Math.floor(i / 6) * 120);
  const last = { timestamp: 6 * 960, atMs: 120 };
  expect(arrivals.pace).toEqual({ ...last, quickestMs: -100, lateMs: 100 });
});
