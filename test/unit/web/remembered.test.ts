import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { redeemInvite } from '../../../web/invite.ts';
import type { Entry } from '../../../web/page-state.ts';

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

/** The page of a tab that has just been loaded. */
let page: typeof import('../../../web/remembered.ts');
/** Names of the locks that open pages hold. */
let held: Set<string>;

/** Gives a page a lock until all pages end, unless another has it. */
async function requestLock(name: string, _: object, hold: (lock: object | null) => unknown) {
  if (held.has(name)) return hold(null);
  held.add(name);
  return hold({});
}

const loadPage = async () => {
  vi.resetModules();
  return import('../../../web/remembered.ts');
};

beforeEach(async () => {
  vi.useFakeTimers();
  held = new Set();
  vi.stubGlobal('navigator', { locks: { request: requestLock } });
  page = await loadPage();
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
  page.rememberGuest(ENTRY, await redeemInvite(ENTRY.invite, ENTRY.peer));
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
    const kept = { token: 'ey', peer: 'Ada-x', room: 'kitchen' };
    expect(await page.recallGuest(ENTRY)).toMatchObject(kept);
    vi.advanceTimersByTime(120_000);
    expect(await page.recallGuest(ENTRY)).toBeUndefined();
  },
);

test('a guest is kept for its invitation and its name alone, until it is forgotten', async () => {
  await redeem(24, 0, DATE);
  expect(await page.recallGuest({ ...ENTRY, invite: 'other' })).toBeUndefined();
  expect(await page.recallGuest({ ...ENTRY, peer: 'Grace' })).toBeUndefined();
  expect(await page.recallGuest(ENTRY)).toBeDefined();
  page.forgetGuest();
  expect(await page.recallGuest(ENTRY)).toBeUndefined();
});

/** Loads the page in a tab that has the same storage, or a copy of it; returns the guest that it has. */
async function guestOfLoadedPage() {
  const loaded = await loadPage();
  loaded.takeGuest();
  return loaded.recallGuest(ENTRY);
}

/** Reloads the page of the tab; returns the guest that it has then. */
const guestOfReloadedPage = () => {
  held.clear();
  return guestOfLoadedPage();
};

test('a reload keeps the guest of a tab; a duplicate of the tab gets a guest of its own', async () => {
  await redeem(24, 0, DATE);
  expect(await guestOfLoadedPage()).toBeUndefined();
  page.storeGuest();
  expect(await guestOfReloadedPage()).toMatchObject({ token: 'ey', peer: 'Ada-x' });
  expect(await guestOfLoadedPage()).toBeUndefined();
});

test('a page that the browser restores after it was left has its guest, and a duplicate has not', async () => {
  await redeem(24, 0, DATE);
  page.storeGuest();
  page.takeGuest();
  expect(await page.recallGuest(ENTRY)).toBeDefined();
  expect(await guestOfLoadedPage()).toBeUndefined();
});

test('a guest that was forgotten is not stored', async () => {
  await redeem(24, 0, DATE);
  page.forgetGuest();
  page.storeGuest();
  expect(await guestOfReloadedPage()).toBeUndefined();
});

const hide = () =>
  vi.stubGlobal('document', { baseURI: 'https://voice.example.com/', hidden: true });

test('a guest of a hidden page is stored, as browsers end hidden pages without a word', async () => {
  hide();
  await redeem(24, 0, DATE);
  expect(await guestOfReloadedPage()).toMatchObject({ token: 'ey', peer: 'Ada-x' });
  await redeem(24, 0, DATE);
  page.forgetGuest();
  expect(await guestOfReloadedPage()).toBeUndefined();
});

test('a tab that is duplicated while it is hidden keeps its guest to itself', async () => {
  hide();
  await redeem(24, 0, DATE);
  expect(await guestOfLoadedPage()).toBeUndefined();
  expect(await page.recallGuest(ENTRY)).toBeDefined();
});

test('a page over plain HTTP, where browsers have no locks, keeps its guest', async () => {
  vi.stubGlobal('navigator', {});
  await redeem(24, 0, DATE);
  expect(await page.recallGuest(ENTRY)).toBeDefined();
});
