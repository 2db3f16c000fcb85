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
  for (const atMs of [0, 21, 43, 60]) arrivals.add(atMs);
  expect(arrivals.waitMs(70)).toBeCloseTo(7);
  expect(arrivals.lastMs).toBe(60);
  // Packets of long ago do not count.
  for (let atMs = 80; atMs < 260; atMs += 20) arrivals.add(atMs);
  expect(arrivals.waitMs(270)).toBeCloseTo(10);
});
