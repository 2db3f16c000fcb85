import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { type LoadLevel, type LoadSample } from '../../../src/load/load-level.ts';
import { LoadMonitor } from '../../../src/load/load-monitor.ts';
import { silentLog } from '../../support/gateway.ts';

const MARKS = { loopDelayMs: 100, cpuShare: 0.9, memoryBytes: 1e9 };

type Load = {
  delayMs?: number;
  process?: number;
  eventLoop?: number;
  decoder?: number;
  mixThreads?: number[];
  worker?: number;
  bytes?: number;
};

const sampleOf = ({
  delayMs = 1,
  process = 0,
  eventLoop = 0,
  decoder = 0,
  mixThreads = [],
  worker = 0,
  bytes = 1e8,
}: Load) =>
  ({
    loopDelayMs: { p50: delayMs, p99: 2000 },
    cpu: { process, eventLoop, decoder, mixThreads, mediaWorkers: [0, worker] },
    memoryBytes: bytes,
  }) satisfies LoadSample;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The levels, second by second, while the load is as given, those of all but memory, and whether memory is short. */
function followAll(loads: Load[], marks = MARKS) {
  const levels: LoadLevel[] = [];
  const workLevels: LoadLevel[] = [];
  const shortages: boolean[] = [];
  let second = 0;
  const sample = () => sampleOf(loads[second]!);
  const monitor = new LoadMonitor(
    sample,
    marks,
    silentLog,
    (workLevel) => {
      levels.push(monitor.level);
      workLevels.push(workLevel);
      shortages.push(monitor.isMemoryShort);
    },
    DEFAULT_TIMINGS.load,
  );
  for (; second < loads.length; second += 1) vi.advanceTimersByTime(1000);
  monitor.close();
  expect(vi.getTimerCount()).toBe(0);
  return { levels, workLevels, shortages };
}

const follow = (loads: Load[], marks = MARKS) => followAll(loads, marks).levels;

const times = (count: number, load: Load) => Array<Load>(count).fill(load);
const lastOf = (loads: Load[], marks = MARKS) => follow(loads, marks).at(-1);

describe('the level of the load', () => {
  test.each<[string, Load, Load]>([
    ['the event loop is late', { delayMs: 100 }, { delayMs: 80 }],
    ['all cores are busy with this process', { process: 0.9 }, { process: 0.73 }],
    ["the event loop's core is busy", { eventLoop: 0.9 }, { eventLoop: 0.73 }],
    ['the decoder thread is busy', { decoder: 0.9 }, { decoder: 0.73 }],
    ['all mixing threads are busy', { mixThreads: [1, 0.9] }, { mixThreads: [0.73, 0.74] }],
    ['a media worker is busy', { worker: 0.9 }, { worker: 0.73 }],
    ['memory is used up', { bytes: 1e9 }, { bytes: 8e8 }],
  ])('%s: overloaded at the mark, strained at 80 %% of it', (_what, over, near) => {
    expect(lastOf(times(8, over))).toBe('overloaded');
    expect(lastOf(times(8, near))).toBe('strained');
    const noMarks = { loopDelayMs: 0, cpuShare: 0, memoryBytes: 0 };
    expect(lastOf(times(8, over), noMarks)).toBe('normal');
  });

  test('one room that fills a mixing thread is encoded more cheaply, and newcomers are admitted', () => {
    expect(lastOf(times(8, { mixThreads: [12, 0.89] }))).toBe('strained');
    const full = times(8, { mixThreads: [12, 0.9] });
    expect(lastOf([...full, ...times(5, { mixThreads: [12, 0.7] })])).toBe('strained');
    expect(lastOf([...full, ...times(5, { mixThreads: [0.6, 0] })])).toBe('normal');
  });

  test('memory does not count for the level that encoders follow', () => {
    const { levels, workLevels } = followAll([
      ...times(8, { bytes: 2e9 }),
      ...times(5, { bytes: 2e9, eventLoop: 0.9 }),
      ...times(5, { bytes: 2e9 }),
    ]);
    expect(levels.slice(4)).toEqual(Array<LoadLevel>(14).fill('overloaded'));
    expect(workLevels.slice(0, 12)).toEqual(Array<LoadLevel>(12).fill('normal'));
    expect(workLevels.slice(12)).toEqual([...Array<LoadLevel>(5).fill('overloaded'), 'normal']);
  });

  test('memory that has fallen is not short, although CPU keeps the level', () => {
    const { levels, shortages } = followAll([
      ...times(10, { bytes: 1.1e9 }),
      ...times(10, { bytes: 1e8, eventLoop: 0.8 }),
    ]);
    expect(levels.slice(4)).toEqual(Array<LoadLevel>(16).fill('overloaded'));
    const shortS = shortages.flatMap((isShort, index) => (isShort ? [index + 1] : []));
    expect(shortS).toEqual([5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
  });

  test('memory is short while CPU is over its limit, too', () => {
    const { shortages } = followAll(times(8, { bytes: 1.1e9, eventLoop: 1 }));
    expect(shortages).toEqual([false, false, false, false, true, true, true, true]);
  });

  test('it takes five seconds in a row', () => {
    const levels = follow([{}, ...times(5, { delayMs: 500 })]);
    expect(levels).toEqual([...Array<LoadLevel>(5).fill('normal'), 'overloaded']);
  });

  test('four seconds of every five change nothing', () => {
    const spikes = [...times(4, { delayMs: 5000, eventLoop: 1, process: 1 }), {}];
    const levels = follow([...spikes, ...spikes, ...spikes, ...spikes]);
    expect(new Set(levels)).toEqual(new Set(['normal']));
  });

  test('it is left only clearly below where it was entered, and after five seconds', () => {
    const over = times(5, { delayMs: 120 });
    expect(lastOf([...over, ...times(20, { delayMs: 86 })])).toBe('overloaded');
    expect(lastOf([...over, ...times(5, { delayMs: 84 })])).toBe('strained');
    expect(lastOf([...over, ...times(20, { delayMs: 70 })])).toBe('strained');
    expect(lastOf([...over, ...times(5, { delayMs: 60 })])).toBe('normal');
    expect(lastOf([...over, ...times(4, { delayMs: 10 })])).toBe('overloaded');
  });

  test('check() refuses, with the time after which to try again, while it is overloaded', () => {
    let load: Load = { delayMs: 200 };
    const monitor = new LoadMonitor(
      () => sampleOf(load),
      MARKS,
      silentLog,
      () => {},
      DEFAULT_TIMINGS.load,
    );
    monitor.check();
    vi.advanceTimersByTime(6000);
    expect(() => monitor.check()).toThrow(
      expect.objectContaining({ code: 'overloaded', retryAfterMs: 5000 }),
    );
    load = { delayMs: 90 };
    vi.advanceTimersByTime(4000);
    expect(() => monitor.check()).toThrow('overloaded');
    load = {};
    vi.advanceTimersByTime(6000);
    monitor.check();
    monitor.close();
  });
});
