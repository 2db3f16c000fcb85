import { afterEach, expect, test, vi } from 'vitest';
import { makeInvite, redeemInvite } from '../../../web/invite.ts';

/** Requests and links of a page that a proxy serves below a path. */

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
  expect(asked).toEqual([`${base}api/invites`, `${base}api/invites/redeem`]);
});
