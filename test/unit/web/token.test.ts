import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { TokenError } from 'partyline-client';
import { askForToken } from '../../../web/token.ts';
import { isKeyUnknown } from '../../../web/words.ts';

/** Answers to the page's requests for a token. */

const ENTRY = { apiKey: 'pl_key', peer: 'Ada' };

let answer: () => Promise<Response>;
beforeEach(() => {
  vi.stubGlobal('document', { baseURI: 'https://voice.example.com/' });
  vi.stubGlobal('fetch', () => answer());
});
afterEach(() => vi.unstubAllGlobals());

/** Asks for a token, and returns why there is none. */
async function reasonOfRefusal(apiKey = ENTRY.apiKey) {
  const fault = await askForToken({ ...ENTRY, apiKey }).catch((thrown: unknown) => thrown);
  expect(fault).toBeInstanceOf(TokenError);
  return (fault as TokenError).reason;
}

const problem =
  (status: number, code: string, headers = {}) =>
  async () =>
    Response.json(
      { type: `urn:partyline:error:${code}`, status, code, detail: 'The reason.' },
      { status, headers },
    );

test.each([
  ['404 of a proxy', async () => new Response('404 page not found', { status: 404 })],
  ['403 of a proxy', async () => new Response('<html>', { status: 403 })],
  ['408 of a proxy', async () => new Response(null, { status: 408 })],
  ['502 without a body', async () => new Response(null, { status: 502 })],
  ['JSON of a proxy', async () => Response.json({ code: 'FORBIDDEN' }, { status: 403 })],
  ['null of a proxy', async () => Response.json(null, { status: 403 })],
  ['page of a captive portal', async () => new Response('<html>', { status: 200 })],
  ['no answer', () => Promise.reject(new TypeError('Failed to fetch'))],
])('is tried again, and told in words: %s', async (_, given) => {
  answer = given;
  expect(await reasonOfRefusal()).toEqual({
    code: 'unreachable',
    closeCode: 1006,
    message: 'The gateway cannot be reached.',
    retryable: true,
  });
});

test('a proxy may say when to try again', async () => {
  answer = async () => new Response(null, { status: 503, headers: { 'retry-after': '7' } });
  expect(await reasonOfRefusal()).toMatchObject({ retryable: true, retryAfterMs: 7000 });
});

test.each([
  [401, 'unauthorized', false],
  [403, 'forbidden', false],
  [404, 'not_found', false],
  [429, 'rate_limited', true],
  [503, 'overloaded', true],
])('a refusal of the gateway, %i %s, is tried again: %s', async (status, code, retryable) => {
  answer = problem(status, code, { 'retry-after': '2' });
  const message = 'The reason.';
  expect(await reasonOfRefusal()).toMatchObject({ code, message, retryable, retryAfterMs: 2000 });
});

test('a key that the gateway refuses, and a text that can be no key, are not known', async () => {
  answer = problem(401, 'unauthorized');
  expect(isKeyUnknown(await reasonOfRefusal())).toBe(true);
  answer = () => Promise.reject(new TypeError('Failed to fetch'));
  expect(isKeyUnknown(await reasonOfRefusal('пароль'))).toBe(true);
  expect(isKeyUnknown(await reasonOfRefusal())).toBe(false);
});

test('the token of an answer is returned', async () => {
  answer = async () => Response.json({ token: 'ey', expires_at: '' });
  expect(await askForToken(ENTRY)).toBe('ey');
});
