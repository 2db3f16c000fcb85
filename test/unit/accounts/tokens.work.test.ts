import * as fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { SigningKeys } from '../../../src/accounts/signing-keys.ts';
import { MAX_TOKEN_CHARACTERS, Tokens } from '../../../src/accounts/tokens.ts';
import type { Redis } from '../../../src/store/redis.ts';

/** Work that the token of a client causes: counted, not timed. */

const KEY = JSON.stringify({
  id: 'known',
  secret: Buffer.from('0'.repeat(32)).toString('base64url'),
  created_ms: 1,
});

/** Tokens over a Redis with one signing key, and the number of questions to it. */
function openTokens() {
  let questions = 0;
  const redis = {
    run: async () => {
      questions += 1;
      return [KEY];
    },
  };
  const keys = new SigningKeys(redis as unknown as Redis, { wallMs: Date.now });
  return { tokens: new Tokens(keys), questions: () => questions };
}

/** Counts what the verification of a text does: characters of Base64 and of JSON, signed bytes, signatures, questions to Redis. */
async function workOf(text: string) {
  const { tokens, questions } = openTokens();
  const work = { decoded: 0, parsed: 0, signed: 0, signatures: 0, questions: 0, isValid: true };
  const [readJson, decode] = [JSON.parse, globalThis.atob];
  const verify = crypto.subtle.verify.bind(crypto.subtle);
  using spies = new DisposableStack();
  spies.use(
    vi.spyOn(JSON, 'parse').mockImplementation((json) => {
      if (json !== KEY) work.parsed += json.length;
      return readJson(json) as unknown;
    }),
  );
  spies.use(
    vi.spyOn(globalThis, 'atob').mockImplementation((encoded) => {
      work.decoded += encoded.length;
      return decode(encoded);
    }),
  );
  spies.use(
    vi.spyOn(crypto.subtle, 'verify').mockImplementation((...words) => {
      work.signatures += 1;
      work.signed += words[3].byteLength;
      return verify(...words);
    }),
  );
  await tokens.verify(text).catch(() => (work.isValid = false));
  return { ...work, questions: questions() };
}

/** Work that a text may cause: one question, one signature, and bytes in proportion; nothing for more than any token has. */
function mostFor({ length }: string) {
  const isRead = length > 0 && length <= MAX_TOKEN_CHARACTERS;
  const [once, characters] = isRead ? [1, length] : [0, 0];
  // The head is read twice, because it names the key.
  return {
    questions: once,
    signatures: once,
    signed: characters,
    decoded: 2 * characters,
    parsed: 2 * characters,
  };
}

/** Returns the kinds of work of which a text causes more than it may. */
async function excessOf(text: string): Promise<string[]> {
  const work = await workOf(text);
  const most = mostFor(text);
  return (Object.keys(most) as (keyof typeof most)[]).filter((kind) => work[kind] > most[kind]);
}

const { token } = await openTokens().tokens.issue(
  { accountId: 7, keyId: 'key' },
  { peer: 'ada', rooms: ['a', 'b'], publish: false, ttl_seconds: 3600 },
);
const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString('base64url');

test('a valid token: all of its parts are read, and its signature is verified once', async () => {
  const work = await workOf(token);
  expect(await excessOf(token)).toEqual([]);
  expect(work).toMatchObject({ questions: 1, signatures: 1, isValid: true });
  expect(work.decoded).toBeGreaterThan(token.length / 2);
  expect(work.parsed).toBeGreaterThan(token.length / 4);
  expect(work.signed).toBeGreaterThan(token.length / 2);
});

test('any text, any change of a token, and any parts: one question and one signature at most, and work in proportion', async () => {
  const changed = fc
    .tuple(fc.nat(token.length - 1), fc.string({ minLength: 1, maxLength: 3 }))
    .map(([at, text]) => token.slice(0, at) + text + token.slice(at + text.length));
  const head = fc.record({
    alg: fc.constantFrom('HS256', 'HS512', 'none', 'RS256'),
    kid: fc.oneof(fc.constant('known'), fc.string()),
    crit: fc.oneof(fc.constant(undefined), fc.array(fc.string(), { maxLength: 3 })),
  });
  const claims = fc.dictionary(fc.constantFrom('sub', 'exp', 'iss', 'rooms'), fc.jsonValue());
  const parts = fc
    .tuple(head, claims, fc.base64String(), fc.nat(3))
    .map(([first, second, signature, more]) =>
      [encode(first), encode(second), signature, ...Array<string>(more).fill('x')].join('.'),
    );
  await fc.assert(
    fc.asyncProperty(fc.oneof(changed, parts, fc.string()), async (text) => {
      expect(await excessOf(text)).toEqual([]);
    }),
    { seed: 20_261_127, numRuns: 300 },
  );
});

test.each([1000, 11_000, 12_000, 200_000])('a token of about %i characters', async (length) => {
  const [head, claims, signature] = token.split('.');
  const filling = 'x'.repeat((length * 3) / 4 - 100);
  const texts = [
    token.padEnd(length, '.'),
    `${head}.${claims}.${'A'.repeat(length - token.length)}`,
    `${encode({ alg: 'HS256', kid: 'known', filling })}.${claims}.${signature}`,
    `${encode({ alg: 'HS256', kid: filling })}.${claims}.${signature}`,
    `${head}.${encode({ filling })}.${signature}`,
  ];
  for (const text of texts) expect(await excessOf(text)).toEqual([]);
});

test('one character more than the longest token has: nothing is read', async () => {
  const [head, claims] = token.split('.');
  const longest = `${head}.${claims}.`.padEnd(MAX_TOKEN_CHARACTERS, 'A');
  expect(longest).toHaveLength(MAX_TOKEN_CHARACTERS);
  expect(await workOf(longest)).toMatchObject({ questions: 1, signatures: 1 });
  expect(await excessOf(longest)).toEqual([]);
  expect(await workOf(`${longest}A`)).toEqual({
    questions: 0,
    signatures: 0,
    signed: 0,
    decoded: 0,
    parsed: 0,
    isValid: false,
  });
});
