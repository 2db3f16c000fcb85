import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { FrameClock } from '../../../src/audio/clock.ts';

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'performance'],
  });
});
afterEach(() => {
  vi.useRealTimers();
});

const rethrow = (fault: unknown) => {
  throw fault;
};

/** The times from each to the next. */
const steps = (timesMs: number[]) => timesMs.slice(1).map((atMs, i) => atMs - timesMs[i]!);

test('a listener is called every 20 ms, until it is removed', () => {
  const clock = new FrameClock(rethrow);
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

test('a clock that is closed calls nobody any more', () => {
  const clock = new FrameClock(rethrow);
  const onTick = vi.fn<() => void>();
  const closing = () => clock.close();
  clock.add(onTick);
  clock.add(closing);
  clock.share(() => {});
  vi.advanceTimersByTime(20);
  const calls = onTick.mock.calls.length;
  expect(vi.getTimerCount()).toBe(0);
  clock.add(onTick);
  clock.share(onTick);
  expect(vi.getTimerCount()).toBe(0);
  expect(onTick).toHaveBeenCalledTimes(calls);
});

test('listeners that share a moment are called at it, beside the others, until they want one of their own', () => {
  const clock = new FrameClock(rethrow);
  const atMs: Record<string, number[]> = { one: [], two: [], apart: [] };
  const [one, two, apart] = ['one', 'two', 'apart'].map((name) => {
    return () => void atMs[name]!.push(performance.now());
  }) as [() => void, () => void, () => void];
  clock.share(one);
  vi.advanceTimersByTime(7);
  clock.add(apart, performance.now() + 5);
  clock.share(two);
  vi.advanceTimersByTime(1000);
  for (const times of Object.values(atMs)) {
    expect(times.length).toBeGreaterThanOrEqual(49);
    expect(new Set(steps(times))).toEqual(new Set([20]));
  }
  expect(atMs['two']!.slice(-49)).toEqual(atMs['one']!.slice(-49));
  expect(atMs['apart']!.at(-1)! % 20).not.toBe(atMs['one']!.at(-1)! % 20);
  expect([clock.isApart(two), clock.isApart(apart)]).toEqual([false, true]);
  const momentMs = (atMs['one']!.at(-1)! + 6) % 20;
  clock.add(two, momentMs);
  vi.advanceTimersByTime(1000);
  expect(Math.abs((atMs['two']!.at(-1)! % 20) - momentMs)).toBeLessThanOrEqual(2);
  clock.share(two);
  clock.share(apart);
  vi.advanceTimersByTime(1000);
  expect(atMs['two']!.slice(-40)).toEqual(atMs['one']!.slice(-40));
  expect(atMs['apart']!.slice(-40)).toEqual(atMs['one']!.slice(-40));
  for (const onTick of [one, two, apart]) clock.remove(onTick);
  expect(vi.getTimerCount()).toBe(0);
});

test('the only listener wants a moment of its own, and shares one again: it is called once each time', () => {
  const clock = new FrameClock(rethrow);
  const ticksMs: number[] = [];
  const onTick = () => void ticksMs.push(performance.now());
  for (let round = 0; round < 5; round += 1) {
    clock.share(onTick);
    vi.advanceTimersByTime(100);
    clock.add(onTick, performance.now() + 7);
    vi.advanceTimersByTime(100);
  }
  expect(ticksMs.length).toBeGreaterThanOrEqual(45);
  expect(ticksMs.length).toBeLessThanOrEqual(52);
  expect(vi.getTimerCount()).toBe(1);
  clock.remove(onTick);
  expect(vi.getTimerCount()).toBe(0);
});

test('listeners that come and go during a tick do not move the clock', () => {
  const clock = new FrameClock(rethrow);
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
  const clock = new FrameClock(rethrow);
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
  const clock = new FrameClock(rethrow);
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

test('a listener that throws in each tick: told, and the others of its phase and of the next are called all the same', () => {
  const faults: unknown[] = [];
  const clock = new FrameClock((fault) => faults.push(fault));
  const bad = () => {
    throw new Error('no');
  };
  const ticks = { same: 0, other: 0 };
  const others = [() => void (ticks.same += 1), () => void (ticks.other += 1)] as const;
  const dueMs = performance.now();
  clock.add(bad, dueMs);
  clock.add(others[0], dueMs);
  clock.add(others[1], dueMs + 8);
  vi.advanceTimersByTime(1000);
  expect(faults).toHaveLength(50);
  expect(ticks).toEqual({ same: 50, other: 50 });
  for (const onTick of [bad, ...others]) clock.remove(onTick);
  expect(vi.getTimerCount()).toBe(0);
});

describe('a listener that wants its ticks at a moment', () => {
  /** Milliseconds from the wanted moment to a tick, modulo 20 ms. */
  const laterMs = (tickMs: number, dueMs: number) => (((tickMs - dueMs) % 20) + 20) % 20;

  test.each([0, 3.5, 11, 19.9])('gets them then, %f ms from now: it is the first', (fromNowMs) => {
    const clock = new FrameClock(rethrow);
    const dueMs = performance.now() + fromNowMs - 40;
    const ticksMs: number[] = [];
    const onTick = (nowMs: number) => void ticksMs.push(nowMs);
    clock.add(onTick, dueMs);
    vi.advanceTimersByTime(100);
    expect(ticksMs.length).toBeGreaterThanOrEqual(4);
    expect(Math.min(laterMs(ticksMs[0]!, dueMs), 20 - laterMs(ticksMs[0]!, dueMs))).toBeCloseTo(0);
    clock.remove(onTick);
    expect(vi.getTimerCount()).toBe(0);
  });

  test.each([
    [101, 31],
    [500, 76],
  ])('and so do %i others: none waits long, and no phase has more than %i', (count, most) => {
    const clock = new FrameClock(rethrow);
    const dueMs = performance.now() + 7;
    const ticks = new Map<number, number>();
    const laterAtMost: number[] = [];
    const listeners = Array.from({ length: count }, () => {
      let isFirst = true;
      return (nowMs: number) => {
        if (!isFirst) return;
        isFirst = false;
        const later = Math.round(laterMs(nowMs, dueMs) * 1000) / 1000;
        ticks.set(later, (ticks.get(later) ?? 0) + 1);
        laterAtMost.push(later);
      };
    });
    for (const listener of listeners) clock.add(listener, dueMs);
    vi.advanceTimersByTime(100);
    expect(laterAtMost).toHaveLength(count);
    expect(Math.max(...ticks.values())).toBeLessThanOrEqual(most);
    expect(Math.max(...laterAtMost)).toBeLessThanOrEqual(16);
    for (const listener of listeners) clock.remove(listener);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('moves them in its own tick: one of 20 ms is shorter, and none is lost or comes twice', () => {
    const clock = new FrameClock(rethrow);
    const ticksMs: number[] = [];
    const onTick = (nowMs: number) => {
      ticksMs.push(nowMs);
      if (ticksMs.length === 5) clock.move(onTick, nowMs - 8);
    };
    clock.add(onTick, performance.now());
    vi.advanceTimersByTime(400);
    const between = steps(ticksMs).map((ms) => Math.round(ms));
    expect(between.slice(0, 6)).toEqual([20, 20, 20, 20, 12, 20]);
    expect(new Set(between.slice(5))).toEqual(new Set([20]));
    clock.remove(onTick);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('postpones them in its own tick: one of 20 ms is longer, and none is lost or comes twice', () => {
    const clock = new FrameClock(rethrow);
    const ticksMs: number[] = [];
    const onTick = (nowMs: number) => {
      ticksMs.push(nowMs);
      if (ticksMs.length === 5) clock.postpone(onTick, nowMs + 8);
    };
    clock.add(onTick, performance.now());
    vi.advanceTimersByTime(400);
    const between = steps(ticksMs).map((ms) => Math.round(ms));
    expect(between.slice(0, 6)).toEqual([20, 20, 20, 20, 28, 20]);
    expect(new Set(between.slice(5))).toEqual(new Set([20]));
    // A listener that is moved before its postponed tick loses none.
    clock.postpone(onTick, performance.now() + 8);
    clock.move(onTick, performance.now() + 4);
    ticksMs.length = 0;
    vi.advanceTimersByTime(15);
    expect(ticksMs).toHaveLength(1);
    // A listener that was postponed and removed is called in its next tick when it is added again.
    clock.postpone(onTick, performance.now() + 8);
    clock.remove(onTick);
    ticksMs.length = 0;
    clock.add(onTick);
    vi.advanceTimersByTime(22);
    expect(ticksMs).toHaveLength(1);
    clock.remove(onTick);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('stays where it is while the moments at and soon after the wanted one are crowded', () => {
    const clock = new FrameClock(rethrow);
    const dueMs = performance.now();
    const ticksMs: number[] = [];
    const onTick = (nowMs: number) => void ticksMs.push(nowMs);
    clock.add(onTick, dueMs + 12);
    // Each phase takes four.
    const others = Array.from({ length: 20 }, () => () => {});
    for (const other of others) clock.add(other, dueMs);
    clock.move(onTick, dueMs);
    clock.postpone(onTick, dueMs);
    vi.advanceTimersByTime(100);
    expect(ticksMs).toHaveLength(5);
    expect(ticksMs.every((atMs) => Math.round(laterMs(atMs, dueMs)) === 12)).toBe(true);
    for (const listener of [onTick, ...others]) clock.remove(listener);
  });

  test('moves them between two ticks: they come at the moment from then on', () => {
    const clock = new FrameClock(rethrow);
    const ticksMs: number[] = [];
    const onTick = (nowMs: number) => void ticksMs.push(nowMs);
    const dueMs = performance.now();
    clock.add(onTick, dueMs);
    vi.advanceTimersByTime(42);
    clock.move(onTick, dueMs + 8);
    const before = ticksMs.length;
    vi.advanceTimersByTime(100);
    const after = ticksMs.slice(before);
    expect(after[0]! - dueMs).toBeCloseTo(48);
    expect(after).toHaveLength(5);
    expect(after.every((atMs) => Math.round(laterMs(atMs, dueMs)) === 8)).toBe(true);
    clock.remove(onTick);
    expect(vi.getTimerCount()).toBe(0);
  });
});
