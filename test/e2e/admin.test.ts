import type { Request } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import { accessibilityFaults, isDrawnInForcedColors, tabTo } from '../support/accessibility.ts';
import { shareBrowsers, TestBrowser } from '../support/browser.ts';
import { GatewayProcess } from '../support/process.ts';
import { SETTLING } from '../support/settling.ts';
import { keepPlaying, opusTone } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

/** The operator's page as an operator uses it. */

shareBrowsers();
const { openRedis, openGateway, connect, enter, cleanUps } = useStack();

const OPERATOR_KEY = 'operator-key-of-the-tests';

async function openPage({ url }: { url: string }, key = OPERATOR_KEY): Promise<TestBrowser> {
  const browser = await TestBrowser.open(`${url}/admin`);
  cleanUps.push(() => browser.close());
  await unlock(browser, key);
  return browser;
}
async function unlock({ page }: TestBrowser, key: string): Promise<void> {
  await page.fill('#operator-key', key);
  await page.click('#form button');
}
/** Chooses a room, and shows who is in it. */
async function choose({ page }: TestBrowser, room: string): Promise<void> {
  await page.locator('.room-button', { hasText: room }).click();
  await page.locator('#room').waitFor({ state: 'visible' });
}
const peerIn = ({ page }: TestBrowser, peer: string) =>
  page.locator(`.peer[data-peer=${JSON.stringify(peer)}]`);
const idOf = async ({ url }: { url: string }) => {
  const headers = { authorization: `Bearer ${OPERATOR_KEY}` };
  const response = await fetch(`${url}/api/admin/nodes/self`, { headers });
  return ((await response.json()) as { id: string }).id;
};
/** Two nodes, each a process of its own; the key is good on both. */
async function openTwoNodes() {
  const redis = await openRedis();
  const shared = { OPERATOR_KEY, REDIS_URL: redis.url, RESUME_MS: '120000', MEDIA_WORKERS: '2' };
  const one = await openGateway(shared);
  const { apiKey } = one;
  const other = await GatewayProcess.start({ ...shared, USAGE_WORKERS: '0', DRAIN_MS: '60000' });
  cleanUps.push(() => other.dispose());
  return [one, { url: (await other.ready()).url, apiKey }] as const;
}
type Node = Awaited<ReturnType<typeof openTwoNodes>>[number];

async function speak(node: Node, peer: string, room: string, amplitude: number) {
  const client = await enter(node, peer, { room });
  const speech = keepPlaying(client, await opusTone(1000, amplitude, 2000));
  cleanUps.push(() => speech.close());
  return client;
}

test('nodes and rooms are shown, with who speaks how loud; Kick and Drain do it, on the other node too', async () => {
  const [a, b] = await openTwoNodes();
  const ada = await speak(a, 'Ada', 'kitchen', 0.3);
  const grace = await speak(b, 'Grace', 'kitchen', 0.02);
  await enter(a, 'door phone', { room: 'kitchen' });
  const secret = await enter(b, 'Secret', { room: 'kitchen', audio: 'opaque' });
  const secrets = keepPlaying(secret, Array(50).fill(Buffer.from('secret')));
  cleanUps.push(() => secrets.close());
  const mary = await connect(b, { room: '__lobby__', peer: 'Mary' });
  await mary.ask({ type: 'join', room: 'kitchen', media: 'webrtc' }, 'joined');
  const bob = await enter(b, 'Bob', { room: 'workshop' });
  await speak(a, 'Eve', 'Halle 3 · Kran', 0.1);
  const lost = await enter(b, 'Lin', { room: 'kitchen' });
  lost.vanish();
  const browser = await openPage(a);
  const { page } = browser;
  const ofB = page.locator(`.node[data-node="${await idOf(b)}"]`);
  await vi.waitFor(async () => {
    expect(await page.locator('.node .state').allInnerTexts()).toEqual(['running', 'running']);
    expect(await ofB.locator('.pipes').innerText()).toBe('1 / 1');
    expect(await ofB.locator('.kept').innerText()).toBe('1');
    expect(await page.locator('.room-button .title').allInnerTexts()).toEqual([
      'Halle 3 · Kran',
      'kitchen',
      'workshop',
    ]);
    expect(await page.locator('.talking-text:visible').allInnerTexts()).toEqual([
      '1 talking',
      '3 talking',
    ]);
  }, SETTLING);
  await choose(browser, 'kitchen');
  const level = async (peer: string) =>
    parseInt(await peerIn(browser, peer).locator('.dbov').innerText(), 10);
  await vi.waitFor(async () => {
    expect(await level('Ada')).toBeGreaterThan(-20);
    expect(await level('Grace')).toBeLessThan(-25);
    expect(await peerIn(browser, 'door phone').locator('.dbov').innerText()).toBe('silent');
    expect(await peerIn(browser, 'Secret').locator('.dbov').innerText()).toBe('talking');
    expect(await peerIn(browser, 'Mary').locator('.facts').innerText()).toContain('Browser');
    expect(await peerIn(browser, 'Lin').locator('.facts').innerText()).toContain('place kept');
  }, SETTLING);
  await takeScreenshots(browser);

  await peerIn(browser, 'Grace').locator('.kick').click();
  await page.click('#confirm-no');
  await peerIn(browser, 'Grace').locator('.kick').click();
  expect(await page.locator('#confirm-question').innerText()).toBe('Kick Grace?');
  await page.click('#confirm-yes');
  expect(await grace.closed).toBe(4403);
  await peerIn(browser, 'Grace').waitFor({ state: 'detached' });
  // The page is refreshed by itself meanwhile: Grace may be gone before the answer to Kick is
  // there.
  const outcome = () => page.locator('#outcome').innerText();
  await expect.poll(outcome, SETTLING).toBe('Grace was kicked.');

  await ofB.locator('.drain').press('Enter');
  await page.keyboard.press('Escape');
  await ofB.locator('.drain').press('Enter');
  await page.locator('#confirm-yes').press('Enter');
  await bob.next('draining');
  await vi.waitFor(
    async () => expect(await ofB.locator('.state').innerText()).toBe('draining'),
    SETTLING,
  );
  const focusedId = () => page.evaluate(() => document.activeElement?.id);
  await expect.poll(focusedId, SETTLING).toBe('nodes-title');
  await Promise.all([bob.close(), mary.close(), secret.close()]);
  await vi.waitFor(
    async () => expect(await ofB.locator('.state').innerText()).toBe('gone'),
    SETTLING,
  );
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(await isDrawnInForcedColors(page.locator('.meter i').first())).toBe(true);
  expect(ada.messages.map(({ type }) => type)).not.toContain('draining');
});

test('a wrong key is told in words; the right one stays in this tab until it is forgotten', async () => {
  const gateway = await openGateway({ OPERATOR_KEY });
  const browser = await openPage(gateway, 'operator-key-of-nobody');
  const { page } = browser;
  const error = page.locator('#entrance-error');
  await error.waitFor({ state: 'visible' });
  expect(await error.innerText()).toBe('This is not the operator key of this gateway.');
  expect(await page.locator('#overview').isVisible()).toBe(false);
  await unlock(browser, OPERATOR_KEY);
  await page.locator('.node').waitFor();
  await page.reload();
  await page.locator('.node').waitFor();
  expect(page.url()).not.toContain(OPERATOR_KEY);
  expect(await page.evaluate(() => [localStorage.length, document.cookie])).toEqual([0, '']);
  await page.click('#forget');
  await page.reload();
  await page.locator('#fields:enabled').waitFor();
  expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
});

test('the key is kept while a proxy answers for the gateway, and while nobody does', async () => {
  const gateway = await openGateway({ OPERATOR_KEY });
  const browser = await openPage(gateway);
  const { page } = browser;
  await page.locator('.node').waitFor();
  await page.clock.install();
  /** Lets the time pass after which the page tries the key again. */
  const letItTryAgain = () => page.clock.fastForward(3000);
  let answers: 'proxy' | 'nobody' | 'gateway' = 'proxy';
  await page.route('**/api/admin/**', (route) => {
    if (answers === 'gateway') return route.continue();
    if (answers === 'nobody') return route.abort();
    return route.fulfill({ status: 403, contentType: 'text/html', body: '<html>' });
  });
  await expect.poll(() => page.locator('#trouble').innerText(), SETTLING).toContain('proxy');
  expect(await page.locator('#overview').isVisible()).toBe(true);
  await page.reload();
  const error = page.locator('#entrance-error');
  await expect.poll(() => error.innerText(), SETTLING).toContain('Trying again');
  answers = 'nobody';
  await letItTryAgain();
  await expect.poll(() => error.innerText(), SETTLING).toContain('does not answer. Trying again');
  expect(await page.getAttribute('#operator-key', 'aria-invalid')).toBe('false');
  await page.fill('#operator-key', 'another');
  const failed = page.waitForEvent('requestfailed');
  await letItTryAgain();
  await failed;
  expect(await page.inputValue('#operator-key')).toBe('another');
  answers = 'gateway';
  await letItTryAgain();
  await page.locator('.node').waitFor();
});

test('names are shown as they are, whatever they are', async () => {
  const gateway = await openGateway({ OPERATOR_KEY });
  const name = '<img src=x onerror="document.title=1">/%2F"\'\\';
  const client = await enter(gateway, name, { room: name });
  const browser = await openPage(gateway);
  const { page } = browser;
  const title = await page.title();
  await choose(browser, name);
  await page.locator('.peer').waitFor();
  expect(await page.locator('.peer .title').innerText()).toBe(name);
  expect(await page.locator('#room-name').innerText()).toBe(name);
  await page.click('.kick');
  await page.click('#confirm-yes');
  expect(await client.closed).toBe(4403);
  await page.getByText('This room has no peers any more.').waitFor();
  expect(await page.evaluate(() => document.activeElement?.id)).toBe('room-name');
  expect(await page.title()).toBe(title);
  expect(await page.locator('main img').count()).toBe(2);
});

test('the keyboard alone leads through the page; axe-core finds no fault on the way', async () => {
  const gateway = await openGateway({ OPERATOR_KEY });
  await enter(gateway, 'door phone', { room: 'kitchen' });
  const browser = await TestBrowser.open(`${gateway.url}/admin`);
  cleanUps.push(() => browser.close());
  const { page } = browser;
  const focused = page.locator(':focus');
  expect(await focused.getAttribute('id')).toBe('operator-key');
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.keyboard.type(OPERATOR_KEY);
  await page.keyboard.press('Enter');
  await page.locator('.room-button').waitFor();
  expect(await focused.getAttribute('id')).toBe('overview-title');
  await tabTo(page, '.room-button');
  await page.keyboard.press('Enter');
  await page.locator('.peer').waitFor();
  expect(await focused.getAttribute('id')).toBe('room-name');
  expect(await accessibilityFaults(page)).toEqual([]);

  await tabTo(page, '.kick');
  await page.keyboard.press('Enter');
  await page.locator('#confirm').waitFor({ state: 'visible' });
  expect(await focused.getAttribute('id')).toBe('confirm-no');
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.keyboard.press('Enter');
  await page.locator('#confirm').waitFor({ state: 'hidden' });
  expect(await focused.getAttribute('class')).toContain('kick');
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Enter');
  await page.locator('#room').waitFor({ state: 'hidden' });
  expect(await focused.getAttribute('class')).toBe('room-button');
});

test('a question whose button is gone gives the focus to the heading above it', async () => {
  const gateway = await openGateway({ OPERATOR_KEY });
  const leaving = await enter(gateway, 'door phone', { room: 'kitchen' });
  await enter(gateway, 'Ada', { room: 'kitchen' });
  const browser = await openPage(gateway);
  const { page } = browser;
  const focused = page.locator(':focus');
  await choose(browser, 'kitchen');
  await peerIn(browser, 'door phone').locator('.kick').click();
  await page.locator('#confirm').waitFor({ state: 'visible' });
  await leaving.close();
  await peerIn(browser, 'door phone').waitFor({ state: 'detached' });
  expect(await focused.getAttribute('id')).toBe('confirm-no');
  await page.keyboard.press('Escape');
  await page.locator('#confirm').waitFor({ state: 'detached' });
  expect(await focused.getAttribute('id')).toBe('room-name');

  await page.locator('.drain').click();
  await page.locator('#confirm').waitFor({ state: 'visible' });
  const drained = await fetch(`${gateway.url}/api/admin/nodes/${await idOf(gateway)}/drain`, {
    method: 'POST',
    headers: { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' },
    body: '{}',
  });
  expect(drained.ok).toBe(true);
  await page.locator('.drain:disabled').waitFor();
  await page.click('#confirm-no');
  await page.locator('#confirm').waitFor({ state: 'detached' });
  expect(await focused.getAttribute('id')).toBe('nodes-title');
});

test('Show more that has shown all gives the focus to the heading of the rooms', async () => {
  const gateway = await openGateway({ OPERATOR_KEY });
  const { page } = await openPage(gateway);
  const all = Array.from({ length: 150 }, (_each, index) => ({
    account_id: 1,
    room: `room ${index}`,
    websocket: 1,
    webrtc: 0,
    away: 0,
    talking: 0,
  }));
  await page.route('**/api/admin/rooms?*', (route) => {
    const limit = Number(new URL(route.request().url()).searchParams.get('limit'));
    const next = limit < all.length ? { next: '1/more' } : {};
    return route.fulfill({ json: { rooms: all.slice(0, limit), unreachable: [], ...next } });
  });
  const more = page.locator('#more');
  await more.press('Enter');
  await more.waitFor({ state: 'detached' });
  expect(await page.locator('.room-button').count()).toBe(150);
  expect(await page.locator(':focus').getAttribute('id')).toBe('rooms-title');
});

test('while the tab is hidden nothing is asked; when it is seen again, at once', async () => {
  const gateway = await openGateway({ OPERATOR_KEY });
  const browser = await TestBrowser.open(`${gateway.url}/admin`);
  cleanUps.push(() => browser.close());
  const { page } = browser;
  await page.clock.install();
  await unlock(browser, OPERATOR_KEY);
  await page.locator('.node').waitFor();
  let asked = 0;
  const open = new Set<Request>();
  page.on('request', (request) => {
    if (!request.url().includes('/api/')) return;
    asked += 1;
    open.add(request);
  });
  page.on('requestfinished', (request) => open.delete(request));
  page.on('requestfailed', (request) => open.delete(request));
  /** Lets time pass; resolves when what the page asked in it has been counted. */
  const letPass = async (durationMs: number) => {
    await page.clock.runFor(durationMs);
    await page.evaluate(async () => (await fetch('/healthz')).text());
  };
  const setHidden = (hidden: boolean) =>
    page.evaluate((value) => {
      Object.defineProperty(document, 'hidden', { value, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
  await vi.waitFor(() => expect(asked).toBeGreaterThan(0), SETTLING);
  await setHidden(true);
  // A refresh that was under way when it was hidden may still ask, and sets the next timer when it
  // has been answered.
  let before = -1;
  await vi.waitFor(
    () => {
      const isQuiet = before === asked && open.size === 0;
      before = asked;
      expect(isQuiet).toBe(true);
    },
    { ...SETTLING, interval: 1000 },
  );
  // The page asks every second while it is seen.
  await letPass(2500);
  expect(asked).toBe(before);
  await setHidden(false);
  await vi.waitFor(() => expect(asked).toBeGreaterThan(before), SETTLING);
});

test('while the store is away the page shows the node that serves it, and says so', async () => {
  const redis = await openRedis();
  const timings = { redis: { commandTimeoutMs: 1000 } };
  const gateway = await openGateway({ OPERATOR_KEY, REDIS_URL: redis.url }, timings);
  const { page } = await openPage(gateway);
  await page.locator('.node').waitFor();
  redis.hang();
  await page.getByText('The store cannot be reached.').waitFor();
  expect(await page.locator('.node .state').innerText()).toBe('running');
  redis.goOn();
  await page.locator('#trouble').waitFor({ state: 'hidden' });
});

/** For docs/: SCREENSHOT=docs/admin writes docs/admin.png and docs/admin-phone.png. */
async function takeScreenshots({ page }: TestBrowser): Promise<void> {
  const screenshot = process.env['SCREENSHOT'];
  if (!screenshot) return;
  await page.setViewportSize({ width: 1200, height: 800 });
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `${screenshot}.png`, fullPage: true });
  await page.setViewportSize({ width: 390, height: 800 });
  await page.screenshot({ path: `${screenshot}-phone.png`, fullPage: true });
}
