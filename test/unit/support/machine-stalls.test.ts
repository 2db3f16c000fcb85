import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { leastOf, undisturbed } from '../../support/listening.ts';
import { awakeMs, unwatchCores, watchStalls } from '../../support/machine-stalls.ts';

/** Longer than any stall of the machine itself should be, ms. */
const STALL_MS = 500;

function stall(): void {
  const startMs = performance.now();
  while (performance.now() - startMs < STALL_MS);
}

// Files that come later share the process.
afterAll(unwatchCores);

test('a stall of this process is seen', async () => {
  const longestStallMs = await watchStalls();
  await sleep(20);
  stall();
  await sleep(20);
  expect(longestStallMs()).toBeGreaterThan(STALL_MS);
  // A stall that has ended is not that of who watches next.
  const longestLaterMs = await watchStalls();
  await sleep(20);
  expect(longestLaterMs()).toBeLessThan(STALL_MS);
});

test('the clock stops in a stall, and goes on after it', async () => {
  const startMs = awakeMs();
  await sleep(20);
  stall();
  expect(awakeMs() - startMs).toBeLessThan(STALL_MS / 2);
  await sleep(20);
  expect(awakeMs() - startMs).toBeLessThan(STALL_MS / 2);
  await expect.poll(() => awakeMs() - startMs).toBeGreaterThan(STALL_MS / 2);
});

test('of recordings the least disturbed is judged, failed or not', async () => {
  const recorded = await undisturbed(async (number) => {
    await sleep(20);
    if (number === 1) stall();
    await sleep(20);
    return number;
  });
  expect(recorded).toBeGreaterThan(1);
  const failed = undisturbed(async (number) => {
    await sleep(20);
    if (number > 1) throw new Error('nothing is heard');
    stall();
    await sleep(20);
  });
  await expect(failed).rejects.toThrow('nothing is heard');
});

test('what depends on chance is measured until it is small enough, at most six times without a stall', async () => {
  const recordings = [3, 2, 1, 0];
  const measure = async (recorded: number) => 10 * recorded;
  expect(await leastOf(async () => recordings.shift()!, measure, 10)).toBe(10);
  expect(recordings).toEqual([0]);
  let recorded = 0;
  const record = async () => {
    recorded += 1;
    await sleep(20);
    if (recorded === 1) stall();
    await sleep(20);
    return 2;
  };
  expect(await leastOf(record, measure, 10)).toBe(20);
  expect(recorded).toBeGreaterThan(6);
});

test('a wait for another process that a recording notes counts as a stall', async () => {
  const taken = await undisturbed(async (number, note) => {
    note(number === 1 ? 60_000 : 0);
    note(1);
    return number;
  });
  expect(taken).toBeGreaterThan(1);
});

test('the threads that watch the cores end when they are no longer needed', async () => {
  await unwatchCores();
  const threads: Worker[] = [];
  const note = (thread: Worker) => threads.push(thread);
  process.on('worker', note);
  onTestFinished(() => void process.off('worker', note));
  (await watchStalls())();
  expect(threads.length).toBeGreaterThan(0);
  expect(threads.every(({ threadId }) => threadId > 0)).toBe(true);
  await unwatchCores();
  expect(threads.every(({ threadId }) => threadId === -1)).toBe(true);
  // Others are started when they are needed again.
  (await watchStalls())();
  expect(threads.filter(({ threadId }) => threadId > 0)).toHaveLength(threads.length / 2);
});
