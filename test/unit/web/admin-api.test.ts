import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Api } from '../../../web/admin/api.ts';

/** Requests of the operator's page to a gateway that never answers, in virtual time. */

beforeEach(() => {
  vi.useFakeTimers();
  const fetch = (_: string, { signal }: { signal: AbortSignal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error));
    });
  vi.stubGlobal('fetch', fetch);
});
afterEach(() => {
  if (vi.getTimerCount() > 0) throw new Error('A timer is left.');
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('a request that is not answered within 10 s fails', async () => {
  let outcome: unknown;
  new Api('key').self().catch((fault: unknown) => (outcome = fault));
  await vi.advanceTimersByTimeAsync(9_900);
  expect(outcome).toBeUndefined();
  await vi.advanceTimersByTimeAsync(200);
  expect(outcome).toMatchObject({ name: 'AbortError' });
});

test('close() ends requests that wait, and lets none begin', async () => {
  const api = new Api('key');
  const outcome = api.self().catch((fault: unknown) => fault);
  api.close();
  expect(await outcome).toMatchObject({ name: 'AbortError' });
  await expect(api.nodes()).rejects.toMatchObject({ name: 'AbortError' });
});
