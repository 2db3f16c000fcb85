import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { logOnceASecond } from '../../src/log-once-a-second.ts';

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
