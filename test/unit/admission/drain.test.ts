import type { FastifyBaseLogger } from 'fastify';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Drain } from '../../../src/admission/drain.ts';
import type { Sessions } from '../../../src/admission/sessions.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function open(peers: number) {
  const lines: [object, string][] = [];
  const announced: number[] = [];
  const sessions = { size: peers, announceDrain: (ms: number) => announced.push(ms) };
  const log = { info: (...line: [object, string]) => lines.push(line) };
  const drain = new Drain(sessions as unknown as Sessions, log as unknown as FastifyBaseLogger);
  return { drain, sessions, lines, announced };
}

test('the log says that a drain began and by whose request, each 10 s how many peers are left, and that it has ended', async () => {
  const { drain, sessions, lines, announced } = open(3);
  const left = drain.begin(60_000, 'SIGTERM');
  expect(lines).toEqual([[{ by: 'SIGTERM', withinMs: 60_000, peers: 3 }, 'drain began']]);
  expect(announced).toEqual([60_000]);
  expect(() => drain.check()).toThrow('draining');
  await vi.advanceTimersByTimeAsync(10_000);
  sessions.size = 1;
  await vi.advanceTimersByTimeAsync(15_000);
  sessions.size = 0;
  await vi.advanceTimersByTimeAsync(100);
  await left;
  expect(lines.slice(1)).toEqual([
    [{ peers: 3 }, 'drain in progress'],
    [{ peers: 1 }, 'drain in progress'],
    [{ peers: 0 }, 'drain ended'],
  ]);
});

test('further requests can only shorten a drain, and are logged; clients are told once', async () => {
  const { drain, lines, announced } = open(2);
  const first = drain.begin(60_000, 'SIGTERM');
  await vi.advanceTimersByTimeAsync(1000);
  expect(drain.timeLeftMs(90_000)).toBe(59_000);
  const second = drain.begin(2000, 'POST /api/admin/drain');
  const third = drain.begin(90_000, 'SIGTERM');
  expect(drain.timeLeftMs(90_000)).toBe(2000);
  await vi.advanceTimersByTimeAsync(2000);
  await Promise.all([first, second, third]);
  expect(lines.slice(1)).toEqual([
    [{ by: 'POST /api/admin/drain', withinMs: 2000, peers: 2 }, 'drain requested again'],
    [{ by: 'SIGTERM', withinMs: 90_000, peers: 2 }, 'drain requested again'],
    [{ peers: 2 }, 'drain ended'],
  ]);
  expect(announced).toEqual([60_000]);
});
