import { afterEach, expect, test, vi } from 'vitest';
import { askForToken } from '../../../web/token.ts';
import { isOfThisMachine, makeInvite, redeemInvite } from '../../../web/invite.ts';

/** Requests and links of a page, by the address at which it is open. */

afterEach(() => vi.unstubAllGlobals());

test.each([
  ['https://example.com/voice/', 'https://example.com/voice/'],
  ['https://example.com/voice/?raw#room=kitchen', 'https://example.com/voice/'],
  ['https://example.com/voice/index.html', 'https://example.com/voice/'],
  ['http://localhost:3000/#room=kitchen', 'http://localhost:3000/'],
])('the page at %s asks and invites below %s', async (baseURI, base) => {
  vi.stubGlobal('document', { baseURI });
  const asked: string[] = [];
  vi.stubGlobal('fetch', (url: URL) => {
    asked.push(url.href);
    const expires = '2026-01-02T00:00:00.000Z';
    return Promise.resolve(Response.json({ invite: 'a.b', token: 'ey', expires_at: expires }));
  });
  const { url } = await makeInvite('pl_key', 'kitchen');
  expect(url).toBe(`${base}#invite=a.b`);
  await redeemInvite('a.b', 'Ada');
  await askForToken({ apiKey: 'pl_key', peer: 'Ada' });
  const paths = ['api/invites', 'api/invites/redeem', 'api/tokens'];
  expect(asked).toEqual(paths.map((path) => base + path));
});

test.each([
  ['http://localhost:3000/#invite=a', true],
  ['http://page.localhost/', true],
  ['https://127.0.0.1:3000/', true],
  ['http://[::1]:3000/', true],
  ['https://192.168.1.5:3000/', false],
  ['https://127.0.0.1.example.com/', false],
  ['https://localhost.example.com/', false],
])('%s leads every machine to itself: %s', (url, expected) => {
  expect(isOfThisMachine(url)).toBe(expected);
});
