import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { redeemInvite } from '../../../web/invite.ts';
import type { Entry } from '../../../web/page-state.ts';
import {
  forgetGuest,
  recallGuest,
  rememberGuest,
  storeGuest,
  takeGuest,
} from '../../../web/remembered.ts';

/** The guest that a tab keeps, in a browser whose clock is not the gateway's. */

const HOUR_MS = 3_600_000;
const REDEEMED_MS = Date.UTC(2026, 0, 2);
const ENTRY: Entry = {
  apiKey: '',
  room: '',
  peer: 'Ada',
  listenOnly: false,
  isTrial: false,
  invite: 'ey',
};

beforeEach(() => {
  vi.useFakeTimers();
  const kept = new Map<string, string>();
  vi.stubGlobal('sessionStorage', {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
  });
  vi.stubGlobal('document', { baseURI: 'https://voice.example.com/' });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Redeems an invitation whose token lives for some hours, in a browser whose clock is ahead by some. */
async function redeem(livesHours: number, aheadHours: number, headers: Record<string, string>) {
  vi.setSystemTime(REDEEMED_MS + aheadHours * HOUR_MS);
  const expiresAt = new Date(REDEEMED_MS + livesHours * HOUR_MS).toISOString();
  const answer = { token: 'ey', peer: 'Ada-x', room: 'kitchen', expires_at: expiresAt };
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json(answer, { headers })));
  rememberGuest(ENTRY, await redeemInvite(ENTRY.invite, ENTRY.peer));
}

const DATE = { date: new Date(REDEEMED_MS).toUTCString() };

test.each([
  ['right', 24, 0, DATE],
  ['two hours behind', 24, -2, DATE],
  ['three hours ahead of a token of one', 1, 3, DATE],
  ['right, and the answer has no date', 24, 0, {}],
])(
  'a guest is kept for the life of its token where the clock is %s',
  async (_, lives, ahead, headers) => {
    await redeem(lives, ahead, headers);
    vi.advanceTimersByTime(lives * HOUR_MS - 60_000);
    expect(recallGuest(ENTRY)).toMatchObject({ token: 'ey', peer: 'Ada-x', room: 'kitchen' });
    vi.advanceTimersByTime(120_000);
    expect(recallGuest(ENTRY)).toBeUndefined();
  },
);

test('a guest is kept for its invitation and its name alone, until it is forgotten', async () => {
  await redeem(24, 0, DATE);
  expect(recallGuest({ ...ENTRY, invite: 'other' })).toBeUndefined();
  expect(recallGuest({ ...ENTRY, peer: 'Grace' })).toBeUndefined();
  expect(recallGuest(ENTRY)).toBeDefined();
  forgetGuest();
  expect(recallGuest(ENTRY)).toBeUndefined();
});

/** Loads the page in a tab that has the same storage, or a copy of it; returns the guest that it has. */
async function guestOfLoadedPage() {
  vi.resetModules();
  const loaded = await import('../../../web/remembered.ts');
  loaded.takeGuest();
  return loaded.recallGuest(ENTRY);
}

test('a reload keeps the guest of a tab; a duplicate of the tab gets a guest of its own', async () => {
  await redeem(24, 0, DATE);
  expect(await guestOfLoadedPage()).toBeUndefined();
  storeGuest();
  expect(await guestOfLoadedPage()).toMatchObject({ token: 'ey', peer: 'Ada-x' });
  expect(await guestOfLoadedPage()).toBeUndefined();
});

test('a page that the browser restores after it was left has its guest, and a duplicate has not', async () => {
  await redeem(24, 0, DATE);
  storeGuest();
  takeGuest();
  expect(recallGuest(ENTRY)).toBeDefined();
  expect(await guestOfLoadedPage()).toBeUndefined();
});

test('a guest that was forgotten is not stored', async () => {
  await redeem(24, 0, DATE);
  forgetGuest();
  storeGuest();
  expect(await guestOfLoadedPage()).toBeUndefined();
});

test('a guest of a hidden page is stored, as browsers end hidden pages without a word', async () => {
  vi.stubGlobal('document', { baseURI: 'https://voice.example.com/', hidden: true });
  await redeem(24, 0, DATE);
  expect(await guestOfLoadedPage()).toMatchObject({ token: 'ey', peer: 'Ada-x' });
  await redeem(24, 0, DATE);
  forgetGuest();
  expect(await guestOfLoadedPage()).toBeUndefined();
});
