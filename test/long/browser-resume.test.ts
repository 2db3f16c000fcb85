import { expect, test, vi } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { SETTLING } from '../support/settling.ts';
import { watchSlowness } from '../support/slowness.ts';
import { amplitudeOf, decodeOpus, lastSecondOf, toDb } from '../support/sound.ts';
import {
  commotionOf,
  expectHeard,
  expectMuteAndLeave,
  expectToHear,
  KEEP,
  SPOKEN,
  toneOf,
  useKitchen,
} from '../support/use-kitchen.ts';

/** A browser whose connection is lost, and which is back: to its transports, or on another node to new ones. */

const { openGateway, openNodes, inKitchen, openProxy, openBrowser, say, openTalk } = useKitchen();

/** The highest sample of all that a listener has heard. */
const loudest = async ({ frames }: TestClient) =>
  (await decodeOpus(frames)).reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);

test('its node goes away: the browser is on another, nobody saw it leave, and it talks again', async () => {
  const [one, other] = await openNodes(2, { ...KEEP, DRAIN_MS: '3000' });
  const proxy = await openProxy(one!.url);
  const legacy = await inKitchen(other!, 'door phone');
  say(legacy, await toneOf(1000));
  const browser = await openBrowser(proxy.url, one!.apiKey, 'Ada');
  await expectToHear(browser, 'door phone', 1000);
  await expectHeard(legacy);

  proxy.leadTo(other!.url);
  await one!.leave();
  legacy.frames.length = 0;
  await legacy.until('Ada’s voice', () => legacy.frames[9], SETTLING.timeout);
  await expectHeard(legacy);
  await expectToHear(browser, 'door phone', 1000);
  expect(commotionOf('Ada', legacy)).toEqual(['peer_joined']);
  await expectMuteAndLeave(browser, 'Ada', legacy);
});

test('Mute while the connection is away: silent at once, and the others are told later', async () => {
  const { legacy, browser, cut, restore } = await openTalk({ RESUME_MS: '60000' });
  await cut();
  await browser.page.click('#mute');
  expect(await browser.page.locator('#mute-label').innerText()).toBe('Unmute');
  // A muted browser sends silence. Sound that was on its way is heard first.
  await vi.waitFor(async () => {
    legacy.frames.length = 0;
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(await loudest(legacy)).toBeLessThan(SPOKEN / 100);
  }, SETTLING);
  restore();
  const status = browser.page.locator('#room-status');
  await vi.waitFor(
    async () => expect(await status.innerText()).toMatch(/You are in the room/),
    SETTLING,
  );
  const isTold = ({ type, ...told }: { type: string }) =>
    type === 'peer_changed' && 'muted' in told && told.muted === true;
  await vi.waitFor(() => expect(legacy.messages.some(isTold)).toBe(true), SETTLING);
  expect(await loudest(legacy)).toBeLessThan(SPOKEN / 100);
  await browser.page.click('#mute');
  legacy.frames.length = 0;
  await expectHeard(legacy);
  expect(commotionOf('Ada', legacy)).toEqual(['peer_joined']);
});

test('the media worker dies while the connection is away: both hear each other again by themselves', async () => {
  const { gateway, legacy, browser, cut, restore } = await openTalk(KEEP);
  await cut();
  for (const pid of gateway.mediaWorkerPids()) process.kill(pid, 'SIGKILL');
  await new Promise((resolve) => setTimeout(resolve, 1000));
  legacy.frames.length = 0;
  restore();
  await expectHeard(legacy);
  await expectToHear(browser, 'door phone', 1000);
  expect(await browser.names()).toEqual(['Ada', 'door phone']);
});

test('a lost connection is counted as minutes while the sound goes on, and only then', async () => {
  const gateway = await openGateway(
    { RESUME_MS: '60000', MEDIA_WORKERS: '1' },
    { usage: { writeEveryMs: 100 } },
  );
  const { url, apiKey } = gateway;
  const proxy = await openProxy(url);
  const legacy = await inKitchen(gateway, 'door phone');
  await openBrowser(proxy.url, apiKey, 'Ada');
  await expectHeard(legacy);
  legacy.vanish();
  const minutes = async () => {
    const headers = { authorization: `Bearer ${apiKey}` };
    const response = await fetch(`${url}/api/usage?granularity=day`, { headers });
    const { records } = (await response.json()) as { records: Record<string, number>[] };
    return records[0] ?? {};
  };
  proxy.cut();
  await vi.waitFor(() => expect(gateway.counts().sessions).toBe(0), SETTLING);
  const aSecondLater = async () => {
    const { webrtc_seconds: fromSeconds = 0 } = await minutes();
    return vi.waitFor(async () => {
      const now = await minutes();
      expect(now['webrtc_seconds']).toBeGreaterThan(fromSeconds + 1);
      return now['websocket_seconds'];
    }, SETTLING);
  };
  // All that came before is written by then.
  const before = await aSecondLater();
  expect(await aSecondLater()).toBe(before);
});

test('too late: the browser joins anew by itself, and the others are told', async () => {
  const { legacy, browser, cut, restore } = await openTalk({ RESUME_MS: '500' });
  await cut();
  await vi.waitFor(() => expect(commotionOf('Ada', legacy)).toContain('peer_left'), SETTLING);
  legacy.frames.length = 0;
  restore();
  await expectHeard(legacy);
  await expectToHear(browser, 'door phone', 1000);
  expect(commotionOf('Ada', legacy)).toEqual(['peer_joined', 'peer_left', 'peer_joined']);
});

test('browsers on two nodes hear each other at their level; Mute and Leave are relayed', async () => {
  const [one, other] = await openNodes(2, KEEP);
  const legacy = await inKitchen(other!, 'door phone');
  const ada = await openBrowser(one!.url, one!.apiKey, 'Ada', 700);
  const grace = await openBrowser(other!.url, one!.apiKey, 'Grace', 1300);
  const expectLevel = (heard: Float32Array, frequencyHz: number) =>
    expect(Math.abs(toDb(amplitudeOf(heard, frequencyHz) / SPOKEN))).toBeLessThan(1.5);
  await vi.waitFor(async () => expectLevel(await ada.hear('Grace'), 1300), SETTLING);
  await vi.waitFor(async () => expectLevel(await grace.hear('Ada'), 700), SETTLING);
  await vi.waitFor(async () => {
    const heard = await lastSecondOf(legacy);
    expectLevel(heard, 700);
    expectLevel(heard, 1300);
  }, SETTLING);
  const measureSlowness = await watchSlowness();
  await ada.page.click('#mute');
  const mutedAtMs = performance.now();
  legacy.frames.length = 0;
  await expectHeard(legacy, 1300);
  await vi.waitFor(async () => {
    const heard = await lastSecondOf(legacy);
    expectLevel(heard, 1300);
    expect(toDb(amplitudeOf(heard, 700) / SPOKEN)).toBeLessThan(-40);
  }, SETTLING);
  // A second of it is looked at.
  expect(performance.now() - mutedAtMs).toBeLessThan(4000 * (await measureSlowness()));
  await ada.page.click('#leave');
  await grace.person('Ada').waitFor({ state: 'detached' });
});
