import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { LogOnceASecond, logOnceASecond } from '../../src/log-once-a-second.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

test('a fault fifty times a second: a line a second, with the number of those left out', () => {
  const lines: [unknown, string][] = [];
  const error = (fields: unknown, message: string) => void lines.push([fields, message]);
  const log = logOnceASecond({ error } as Parameters<typeof logOnceASecond>[0], 'tick failed');
  for (let i = 0; i < 101; i += 1) {
    log(i);
    vi.advanceTimersByTime(20);
  }
  expect(lines).toEqual([
    [{ err: 0, unlogged: 0 }, 'tick failed'],
    [{ err: 50, unlogged: 49 }, 'tick failed'],
    [{ err: 100, unlogged: 49 }, 'tick failed'],
  ]);
});

test('rooms that have two faults at the same time: a line a second of each, from the log of the first room', () => {
  const shared = new LogOnceASecond();
  const lines: string[] = [];
  const logOf = (room: string) =>
    ({
      warn: ({ unlogged }: { unlogged: number }, message: string) =>
        void lines.push(`${room}: ${message}, ${unlogged}`),
    }) as unknown as Parameters<typeof logOnceASecond>[0];
  for (let second = 0; second < 2; second += 1) {
    for (const room of ['a', 'b', 'c']) {
      for (const message of ['not written', 'not read']) shared.warn(logOf(room), {}, message);
    }
    vi.advanceTimersByTime(1000);
  }
  expect(lines).toEqual([
    'a: not written, 0',
    'a: not read, 0',
    'a: not written, 2',
    'a: not read, 2',
  ]);
});
