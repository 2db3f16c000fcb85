import { expect, test, vi } from 'vitest';
import { shareBrowsers, TestBrowser } from '../support/browser.ts';
import { openTestGateway } from '../support/gateway.ts';
import { PathProxy } from '../support/path-proxy.ts';
import { SETTLING } from '../support/settling.ts';
import { watchSlowness } from '../support/slowness.ts';
import { lastSecondOf, peakHz } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** The ways into a room by the page: keys, addresses and invitations, and what the page says when it cannot load or reach something. */

const ROOM = 'kitchen';

shareBrowsers();
const used = useGateway();

async function openBrowser(): Promise<TestBrowser> {
  return used.keep(await TestBrowser.openRaw(used.gateway.url, 800));
}

test('Join in a browser without Promise.withResolvers and Intl.Segmenter: over WebRTC, with initials', async () => {
  const legacy = await used.enter('door phone', { room: ROOM });
  const ada = await openBrowser();
  await ada.page.addInitScript(() => {
    Reflect.deleteProperty(Promise, 'withResolvers');
    Reflect.deleteProperty(Intl, 'Segmenter');
  });
  await ada.page.reload();
  await ada.join(ROOM, 'Ada Lovelace', used.gateway.apiKey);
  expect(await ada.person('Ada Lovelace').locator('.avatar').innerText()).toBe('AL');
  expect(await ada.page.evaluate(() => window.partyline?.transport)).toBe('webrtc');
  await vi.waitFor(async () => {
    expect(legacy.frames.length).toBeGreaterThan(75);
    expect(peakHz(await lastSecondOf(legacy))).toBe(800);
  }, SETTLING);
});

test('the key is in no address: the page connects with a token', async () => {
  const ada = await openBrowser();
  const addresses: string[] = [];
  ada.page.on('websocket', (socket) => addresses.push(socket.url()));
  ada.page.on('request', (request) => addresses.push(request.url()));
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  expect(addresses.filter((address) => address.includes('/ws?'))).toEqual([
    expect.stringContaining('token=ey'),
  ]);
  expect(addresses.join()).not.toContain(used.gateway.apiKey);
});

test('an address with room, name and key fills them in, and loses the key', async () => {
  const { url, apiKey } = used.gateway;
  const address = `${url}/?raw&transports=webrtc#room=${ROOM}&name=Ada&key=${apiKey}`;
  const ada = used.keep(await TestBrowser.open(address));
  await ada.page.click('#listen');
  await ada.page.locator('#room-view').waitFor({ state: 'visible' });
  expect(await ada.names()).toEqual(['Ada']);
  expect(ada.page.url()).toContain(`room=${ROOM}`);
  expect(ada.page.url()).not.toContain(apiKey);
  await ada.page.goBack();
  expect(ada.page.url()).not.toContain(apiKey);
});

test('Invite: the link lets others in by their name alone, and a reload keeps it', async () => {
  const ada = await openBrowser();
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  await ada.page.click('#invite');
  await ada.page.locator('#invitation').waitFor({ state: 'visible' });
  const link = await ada.page.locator('#invitation-link').inputValue();
  expect(link).not.toContain(used.gateway.apiKey);
  const isDrawn = (image: HTMLImageElement) => image.complete && image.naturalWidth > 0;
  const code = ada.page.locator('#invitation-code');
  await vi.waitFor(async () => expect(await code.evaluate(isDrawn)).toBe(true), SETTLING);
  await ada.page.click('#invitation-close');

  const guest = await openBrowser();
  await guest.page.goto(link);
  expect(await guest.page.locator('#room').isVisible()).toBe(false);
  expect(await guest.page.locator('#api-key').isVisible()).toBe(false);
  await guest.page.fill('#peer', 'Grace');
  await guest.page.click('#join');
  await guest.person('Ada').waitFor();
  const [name] = await guest.names();
  expect(name).toMatch(/^Grace-/);
  expect(await guest.page.locator('#invite').isVisible()).toBe(false);
  await ada.person(name!).waitFor();

  await guest.page.reload();
  await guest.page.fill('#peer', 'Grace');
  await guest.page.click('#join');
  await guest.person('Ada').waitFor();
  expect((await guest.names())[0]).toBe(name);

  // A tab that gets a copy of the storage, as a duplicate does, is another peer, and takes nobody's
  // place; also while the page is hidden, when the storage has the guest.
  const opened = guest.page.waitForEvent('popup');
  await guest.page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { value: true });
    document.dispatchEvent(new Event('visibilitychange'));
    window.open(location.href);
  });
  const duplicate = await opened;
  await duplicate.fill('#peer', 'Grace');
  await duplicate.click('#join');
  await duplicate.locator('.person[data-peer="Ada"]').waitFor();
  const inDuplicate = await duplicate.locator('.person .name').allInnerTexts();
  expect(inDuplicate).toHaveLength(3);
  expect(inDuplicate[0]).toMatch(/^Grace-/);
  expect(inDuplicate).toContain(name);
  await guest.person(inDuplicate[0]!).waitFor();
  await duplicate.close();

  // A token that the gateway no longer accepts leads to a new one.
  await guest.page.addInitScript(() => {
    const kept = JSON.parse(sessionStorage.getItem('partyline-guest') ?? '{}') as object;
    sessionStorage.setItem('partyline-guest', JSON.stringify({ ...kept, token: 'refused' }));
  });
  await guest.page.reload();
  await guest.page.fill('#peer', 'Grace');
  await guest.page.click('#join');
  await guest.person('Ada').waitFor();
  const [second] = await guest.names();
  expect(second).toMatch(/^Grace-/);
  expect(second).not.toBe(name);
});

test('a guest that may not speak is told so in the status for as long as it would speak', async () => {
  const { url, apiKey } = used.gateway;
  const made = await fetch(`${url}/api/invites`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ room: ROOM, publish: false }),
  });
  const guest = await openBrowser();
  await guest.page.goto(((await made.json()) as { url: string }).url);
  await guest.page.fill('#peer', 'Grace');
  await guest.page.click('#join');
  const status = () => guest.page.locator('#room-status').innerText();
  await expect.poll(status, SETTLING).toMatch(/Nobody hears you: .*does not allow publishing/);
  expect(await guest.page.locator('#alone').innerText()).toBe('Nobody else is here yet.');
  await guest.page.click('#notice-close');
  expect(await status()).toMatch(/Nobody hears you/);
  await guest.page.click('#mute');
  await expect.poll(status, SETTLING).toContain('You are in the room');
  await guest.page.click('#mute');
  await expect.poll(status, SETTLING).toMatch(/Nobody hears you/);
});

test('a page below a path asks nothing of the root, and invites below the path', async () => {
  const proxy = used.keep(await PathProxy.open(used.gateway.url, '/voice/'));
  const ada = used.keep(await TestBrowser.openRaw(proxy.url.slice(0, -1), 800));
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  await ada.page.click('#invite');
  await ada.page.locator('#invitation').waitFor({ state: 'visible' });
  const link = await ada.page.locator('#invitation-link').inputValue();
  expect(link).toContain(`${proxy.url}#invite=`);
  const guest = used.keep(await TestBrowser.open(link));
  await guest.page.fill('#peer', 'Grace');
  await guest.page.click('#listen');
  await guest.person('Ada').waitFor();
  const { status, url } = await fetch(`${proxy.url}admin`);
  expect([status, url]).toEqual([200, `${proxy.url}admin/`]);
  expect(proxy.refused.filter((path) => path !== '/favicon.ico')).toEqual([]);
});

test('an invitation that does not hold is told in words, and a key leads in', async () => {
  const guest = used.keep(await TestBrowser.open(`${used.gateway.url}/#invite=nothing`));
  await guest.page.fill('#peer', 'Grace');
  await guest.page.click('#join');
  const error = guest.page.locator('#entrance-error');
  await error.waitFor({ state: 'visible' });
  expect(await error.innerText()).toMatch(/invitation is not valid, or has expired/);
  expect(await guest.page.locator('#invited').isVisible()).toBe(false);
  await guest.join(ROOM, 'Grace', used.gateway.apiKey);
  expect(await guest.names()).toEqual(['Grace']);
});

test('a page whose parts are of another version says that it must be reloaded', async () => {
  const { page } = await openBrowser();
  expect(await page.locator('#not-loaded').count()).toBe(0);
  const missing = (files: string) => page.route(files, (route) => route.fulfill({ status: 404 }));
  await missing('**/assets/qr-code-*');
  await page.fill('#room', ROOM);
  await page.fill('#peer', 'Ada');
  await page.fill('#api-key', used.gateway.apiKey);
  await page.click('#listen');
  await page.click('#invite');
  const notice = page.locator('#notice-text');
  await expect.poll(() => notice.innerText(), SETTLING).toContain('Reload the page.');
  await missing('**/assets/*.js');
  await page.reload();
  // Shown after 5 s, which a slow network may take.
  await page.evaluate(() => {
    for (const animation of document.getAnimations()) animation.finish();
  });
  await page.locator('#not-loaded').waitFor({ state: 'visible' });
});

test('a page that cannot load the code of WebRTC joins over the WebSocket, and blocks no network', async () => {
  const both = 'webrtc,websocket';
  const ada = used.keep(await TestBrowser.openRaw(used.gateway.url, 800, both));
  await ada.page.route('**/assets/webrtc-audio-*', (route) => route.abort());
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  const transport = () => ada.page.evaluate(() => window.partyline?.transport);
  await expect.poll(transport, SETTLING).toBe('websocket');
  const blocked = await ada.page.evaluate(() => localStorage.getItem('partyline-blocked-networks'));
  expect(blocked).toBeNull();
});

test.each([
  ['a wrong key', 'pl_wrong'],
  ['what can be no key', 'пароль'],
])('%s is told in words at its field; the right one then leads in', async (_, wrongKey) => {
  const ada = await openBrowser();
  await ada.enter(ROOM, 'Ada', wrongKey);
  const error = ada.page.locator('#entrance-error');
  await error.waitFor({ state: 'visible' });
  expect(await error.innerText()).toMatch(/does not know this API key/);
  expect(await ada.page.locator('#api-key').getAttribute('aria-invalid')).toBe('true');
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  expect(await error.isVisible()).toBe(false);
  expect(await ada.page.locator('#api-key').getAttribute('aria-invalid')).toBe('false');
});

test('a page that WebRTC cannot reach says within 5 s that there is no sound, and why', async () => {
  const RTC_LISTEN_IP = '127.0.0.1=192.0.2.250';
  const gateway = used.keep(await openTestGateway({ RTC_LISTEN_IP, RTC_TCP: 'false' }));
  const ada = used.keep(await TestBrowser.openRaw(gateway.url, 800));
  const measureSlowness = await watchSlowness();
  const status = () => ada.page.locator('#room-status').innerText();
  const joinMs = async () => {
    await ada.join(ROOM, 'Ada', gateway.apiKey);
    const joinedMs = performance.now();
    await expect.poll(status, SETTLING).toMatch(/No audio.*may block/);
    return performance.now() - joinedMs;
  };
  let tookMs = await joinMs();
  const limitMs = 5000 * (await measureSlowness());
  // Another page runs beside this one: the fastest join tells what the page waits for.
  for (let joins = 1; joins < 3 && tookMs >= limitMs; joins += 1) {
    await ada.page.reload();
    tookMs = Math.min(tookMs, await joinMs());
  }
  expect(tookMs).toBeLessThan(limitMs);
});
