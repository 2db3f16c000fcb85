import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { SpeakingPeer } from '../../../src/protocol/messages.ts';
import { SpeakingReporter } from '../../../src/rooms/speaking-reporter.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const speak = (...peers: string[]): SpeakingPeer[] =>
  peers.map((peer) => ({ peer, level_dbov: -20 }));

/** A reporter, and its reports with their times, ms. */
function openReporter() {
  const reports: [number, string[]][] = [];
  const startMs = performance.now();
  let speaking: SpeakingPeer[] = [];
  const reporter = new SpeakingReporter(
    () => speaking,
    (peers) =>
      reports.push([Math.round(performance.now() - startMs), peers.map(({ peer }) => peer)]),
  );
  const change = (...peers: string[]) => {
    speaking = speak(...peers);
    reporter.activeSpeakersChanged();
  };
  return { reporter, reports, change };
}

test('reports are 250 ms apart, also where nobody speaks between two', async () => {
  const { reports, change } = openReporter();
  change('alice');
  for (let atMs = 10; atMs <= 2000; atMs += 10) {
    await vi.advanceTimersByTimeAsync(10);
    if (atMs % 70 === 0) change(...(atMs % 140 === 0 ? ['alice'] : []));
  }
  expect(reports.length).toBeGreaterThan(4);
  const gaps = reports.slice(1).map(([atMs], index) => atMs - reports[index]![0]);
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(250);
});

test('the first word after a pause is reported at once, and a change just after a report is not lost', async () => {
  const { reports, change } = openReporter();
  change('alice');
  await vi.advanceTimersByTimeAsync(100);
  change();
  await vi.advanceTimersByTimeAsync(160);
  change('bob');
  await vi.advanceTimersByTimeAsync(1000);
  change();
  await vi.advanceTimersByTimeAsync(1000);
  change('carol');
  expect(reports).toEqual([
    [0, ['alice']],
    [250, []],
    [500, ['bob']],
    [1500, []],
    [2260, ['carol']],
  ]);
});

test('there is no timer after a silence, or after the end', async () => {
  const { reporter, change } = openReporter();
  change('alice');
  await vi.advanceTimersByTimeAsync(300);
  change();
  await vi.advanceTimersByTimeAsync(501);
  expect(vi.getTimerCount()).toBe(0);
  change('alice');
  expect(vi.getTimerCount()).toBe(1);
  reporter.close();
  expect(vi.getTimerCount()).toBe(0);
});
