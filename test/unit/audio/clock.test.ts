import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FrameClock } from '../../../src/audio/clock.ts';

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'performance'],
  });
});
afterEach(() => {
  vi.useRealTimers();
});

/** The times from each to the next. */
const steps = (timesMs: number[]) => timesMs.slice(1).map((atMs, i) => atMs - timesMs[i]!);

test('a listener is called every 20 ms, until it is removed', () => {
  const clock = new FrameClock();
  const ticksMs: number[] = [];
  const onTick = (nowMs: number) => void ticksMs.push(nowMs);
  clock.add(onTick);
  clock.add(onTick);
  vi.advanceTimersByTime(1000);
  expect(ticksMs).toHaveLength(50);
  expect(new Set(steps(ticksMs))).toEqual(new Set([20]));
  clock.remove(onTick);
  expect(vi.getTimerCount()).toBe(0);
});

test('whoever comes and goes in somebody’s tick does not move the clock', () => {
  const clock = new FrameClock();
  const ticksMs: number[] = [];
  const other = () => {};
  const onTick = (nowMs: number) => {
    ticksMs.push(nowMs);
    if (ticksMs.length % 2 === 0) clock.remove(other);
    else clock.add(other);
  };
  clock.add(onTick);
  vi.advanceTimersByTime(1000);
  expect(new Set(steps(ticksMs))).toEqual(new Set([20]));
  clock.remove(onTick);
  clock.remove(other);
  expect(vi.getTimerCount()).toBe(0);
});

test('the last listener leaves in its own tick and another comes: the clock goes on for that one', () => {
  const clock = new FrameClock();
  let ticks = 0;
  const next = () => void (ticks += 1);
  const first = () => {
    clock.remove(first);
    clock.add(next);
  };
  clock.add(first);
  vi.advanceTimersByTime(1000);
  expect(ticks).toBeGreaterThanOrEqual(48);
  clock.remove(next);
  expect(vi.getTimerCount()).toBe(0);
});

test('a stall of a second is not caught up', () => {
  const clock = new FrameClock();
  let ticks = 0;
  const onTick = () => void (ticks += 1);
  clock.add(onTick);
  vi.advanceTimersByTime(100);
  const before = ticks;
  const spy = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 1000);
  vi.advanceTimersByTime(40);
  expect(ticks - before).toBeLessThanOrEqual(3);
  spy.mockRestore();
  clock.remove(onTick);
});
