import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Api, Refusal } from '../../../../web/admin/api.ts';

/** Requests of the operator's page, to a gateway that never answers unless a test says otherwise, in virtual time. */

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

test.each([
  ['the gateway, 401', problem(401, 'unauthorized'), true],
  ['the gateway, 403', problem(403, 'forbidden'), true],
  ['the gateway, 503', problem(503, 'overloaded'), false],
  ['a proxy, 401', new Response('<html>', { status: 401 }), false],
  ['a proxy, 403', Response.json({ code: 'forbidden' }, { status: 403 }), false],
])('the key is refused by the gateway alone: %s', async (_, answer, isKeyRefused) => {
  vi.stubGlobal('fetch', () => Promise.resolve(answer));
  const refusal = await new Api('key').self().catch((fault: unknown) => fault);
  expect(refusal).toBeInstanceOf(Refusal);
  expect(refusal).toMatchObject({ isKeyRefused, message: expect.stringMatching(/./) as string });
});

function problem(status: number, code: string): Response {
  return Response.json(
    { type: `urn:partyline:error:${code}`, code, detail: 'The reason.' },
    { status },
  );
}
