import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { redeemInvite } from '../../../web/invite.ts';

/** The exchange of an invitation, in a browser whose clock is not the gateway's. */

const HOUR_MS = 3_600_000;
const REDEEMED_MS = Date.UTC(2026, 0, 2);
const DATE = { date: new Date(REDEEMED_MS).toUTCString() };

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('document', { baseURI: 'https://voice.example.com/' });
  const expiresAt = new Date(REDEEMED_MS + 24 * HOUR_MS).toISOString();
  const answer = { token: 'ey', peer: 'Ada-x', room: 'kitchen', expires_at: expiresAt };
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json(answer, { headers: DATE })));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const part = (claims: object) => Buffer.from(JSON.stringify(claims)).toString('base64url');
const inviteOf = (claims: object) => `${part({ alg: 'HS256' })}.${part(claims)}.c2lnbmVk`;

test.each([0, -2, 3])(
  'the ends of token and invitation are times of this browser, whose clock is ahead by %d h',
  async (aheadHours) => {
    vi.setSystemTime(REDEEMED_MS + aheadHours * HOUR_MS);
    const exp = (REDEEMED_MS + 48 * HOUR_MS) / 1000;
    // Has both characters in which Base64 for URLs differs.
    const invite = inviteOf({ room: 'Küche ???>>>ÿþ', exp });
    expect(await redeemInvite(invite, 'Ada')).toEqual({
      token: 'ey',
      peer: 'Ada-x',
      room: 'kitchen',
      expiresAtMs: REDEEMED_MS + (24 + aheadHours) * HOUR_MS,
      invitedUntilMs: REDEEMED_MS + (48 + aheadHours) * HOUR_MS,
    });
  },
);

test.each(['ey', inviteOf({}), 'a.%.b'])(
  'an invitation that cannot be read, %s, is exchanged all the same',
  async (invite) => {
    const guest = await redeemInvite(invite, 'Ada');
    expect(guest.token).toBe('ey');
    expect(guest.invitedUntilMs > Date.now()).toBe(false);
  },
);
