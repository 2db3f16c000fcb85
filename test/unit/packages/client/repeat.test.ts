import { afterEach, expect, test, vi } from 'vitest';
import { repeat } from '../../../../packages/client/src/repeat.ts';

/** Calls that come again and again, also in hidden pages: there a timer waits for up to a minute that another timer has started. */

/** Number of timers that were started in the call of another. */
let nested = 0;

afterEach(() => {
  nested = 0;
  vi.unstubAllGlobals();
});

function watchTimers(): void {
  const { setTimeout: start } = globalThis;
  let isInTimer = false;
  vi.stubGlobal('setTimeout', (run: () => void, ms: number) => {
    if (isInTimer) nested += 1;
    return start(() => {
      isInTimer = true;
      run();
      isInTimer = false;
    }, ms);
  });
}

test('no timer starts another', async () => {
  watchTimers();
  let calls = 0;
  let wake = () => {};
  const called = new Promise<void>((resolve) => {
    wake = resolve;
  });
  const stop = repeat(1, () => {
    calls += 1;
    if (calls === 6) wake();
  });
  await called;
  stop();
  expect(nested).toBe(0);
});

test('nothing is called after the end, also where it comes in a call', async () => {
  let calls = 0;
  const stop = repeat(1, () => {
    calls += 1;
    stop();
  });
  await vi.waitFor(() => expect(calls).toBe(1), { timeout: 10_000 });
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(calls).toBe(1);
});
