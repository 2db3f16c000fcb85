import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { limitLoading } from '../../../../packages/client/src/loading-time.ts';

/** Time that files may take to load, in virtual time. Other tests share the memory of late files: no other may name these. */

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Loads a file that stalls. @returns the time after which it is given up, ms, and the reason */
async function load(url: string | URL): Promise<{ afterMs: number; reason: string }> {
  const startedMs = performance.now();
  const late = new Promise<Error>((resolve) => void limitLoading(url, resolve));
  await vi.runAllTimersAsync();
  return { afterMs: performance.now() - startedMs, reason: (await late).message };
}

test('a file that was late has twice the time from then on', async () => {
  const url = 'https://voice.example.com/late.js';
  const reason = `The browser did not load ${url} in time.`;
  expect(await load(url)).toEqual({ afterMs: 30_000, reason });
  expect(await load(new URL(url))).toEqual({ afterMs: 60_000, reason });
  expect(await load(url)).toEqual({ afterMs: 60_000, reason });
  expect(await load('another.js')).toMatchObject({ afterMs: 30_000 });
});

test('a file that is loaded in time is not late', async () => {
  const late = vi.fn<(reason: Error) => void>();
  limitLoading('in-time.js', late)();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(late).not.toHaveBeenCalled();
  expect(await load('in-time.js')).toMatchObject({ afterMs: 30_000 });
});
