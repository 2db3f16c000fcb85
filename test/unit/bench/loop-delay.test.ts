import { expect, test } from 'vitest';
import { LoopDelay } from '../../../bench/loop-delay.ts';

test('the delay of a loop that is blocked rarely and for long shows in its 99th percentile', () => {
  const delay = new LoopDelay();
  for (let second = 0; second < 10; second += 1) {
    delay.note(61);
    for (let ms = 0; ms < 340; ms += 1) delay.note(1.1);
  }
  expect(delay.p99Ms).toBeGreaterThan(50);
  expect(delay.p99Ms).toBeLessThan(61);
});

test('a loop that is on time has next to no delay', () => {
  const delay = new LoopDelay();
  expect(delay.p99Ms).toBe(0);
  for (let ms = 0; ms < 1000; ms += 1) delay.note(1.1);
  expect(delay.p99Ms).toBeCloseTo(0.1, 2);
});

test('a turn before it is due counts as no delay', () => {
  const delay = new LoopDelay();
  delay.note(0.9);
  expect(delay.p99Ms).toBeLessThan(0.01);
});
