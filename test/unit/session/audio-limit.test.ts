import { afterEach, expect, test, vi } from 'vitest';
import { ContainerIngest } from '../../../src/audio/ingest/container-ingest.ts';
import type { ServerMessage } from '../../../src/protocol/messages.ts';
import { AudioLimit } from '../../../src/session/audio-limit.ts';
import { oggOpus } from '../../support/containers.ts';

afterEach(() => {
  vi.useRealTimers();
});

/** Limit of a client, which reads it in fake time. */
function open() {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  const told: ServerMessage[] = [];
  const reading = {
    isPaused: false,
    pause: () => {
      reading.isPaused = true;
    },
    resume: () => {
      reading.isPaused = false;
    },
  };
  const notify = (message: ServerMessage) => void told.push(message);
  const limit = new AudioLimit(reading, { notify, fail: () => {} });
  return { limit, reading, told };
}

test('a client is read again after the longest of its pauses', () => {
  const { limit, reading } = open();
  for (const waitMs of [100, 700, 300]) limit.slowDown({ waitMs, fault: undefined });
  vi.advanceTimersByTime(690);
  expect([reading.isPaused, limit.isRefusing]).toEqual([true, true]);
  vi.advanceTimersByTime(20);
  expect([reading.isPaused, limit.isRefusing]).toEqual([false, false]);
  limit.slowDown({ waitMs: 100, fault: undefined });
  vi.advanceTimersByTime(110);
  expect([reading.isPaused, vi.getTimerCount()]).toEqual([false, 0]);
});

test('a pause that has become longer ends with the session', () => {
  const { limit } = open();
  for (const waitMs of [100, 700]) limit.slowDown({ waitMs, fault: undefined });
  vi.advanceTimersByTime(200);
  limit.close();
  expect(vi.getTimerCount()).toBe(0);
});

test('a client whose messages have 250 packets of 2.5 ms each, a page after the other, is told, and refused after 5 s', () => {
  const { limit, reading, told } = open();
  const faults: unknown[] = [];
  const ingest = new ContainerIngest(
    'ogg_opus',
    { push: () => {}, skip: () => {}, close: () => {} },
    (fault) => faults.push(fault),
    (overdraft) => limit.slowDown(overdraft),
  );
  const pages = oggOpus(
    Array.from({ length: 40_000 }, () => Buffer.of(0xe0, 1)),
    2.5,
    { packetsPerPage: 250 },
  );
  let toldAtMs = Infinity;
  while (faults.length === 0) {
    ingest.push(pages.shift()!, performance.now());
    if (told.length > 0) toldAtMs = Math.min(toldAtMs, performance.now());
    do vi.advanceTimersByTime(50);
    while (reading.isPaused);
  }
  expect(told).toEqual([expect.objectContaining({ type: 'error', code: 'rate_limited' })]);
  expect(faults).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
  expect(performance.now() - toldAtMs).toBeGreaterThanOrEqual(5000);
  expect(performance.now() - toldAtMs).toBeLessThan(7000);
});
