import { expect, test, vi } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import type { TestClient } from '../support/client.ts';
import { TestProxy } from '../support/proxy.ts';
import { keepPlaying, lastSecondOf, opusTone, peakHz } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

/** A browser whose connection is lost, and who is back: to its transports, or on another node to new ones. */

const SETTLING = { timeout: 20_000, interval: 200 };
const ROOM = 'kitchen';
const KEEP = { RESUME_MS: '15000' };
const FRAME_MS = 20;
const MAX_GAP_MS = 100;

const { openGateway, openNodes, enter, cleanUps } = useStack();

const keep = <T extends { close(): Promise<void> }>(part: T): T => {
  cleanUps.push(() => part.close());
  return part;
};

const inKitchen = (node: { url: string; apiKey: string }, peer: string) =>
  enter(node, peer, { room: ROOM });
const openProxy = async (target: string) => keep(await TestProxy.open(target));

async function openBrowser(url: string, apiKey: string, peer: string, microphoneHz = 800) {
  const browser = keep(await TestBrowser.openRaw(url, microphoneHz));
  await browser.join(ROOM, peer, apiKey);
  return browser;
}

const toneOf = (frequencyHz: number) => opusTone(frequencyHz, 0.5, 10_000);
const say = (client: TestClient, tone: Buffer[]) => keep(keepPlaying(client, tone));

/** What the others were told of a peer's coming and going. */
const commotionOf = (peer: string, { messages }: TestClient) =>
  messages
    .filter(({ type }) => type === 'peer_joined' || type === 'peer_left')
    .filter((message) => 'peer' in message && message.peer === peer)
    .map(({ type }) => type);

const expectHeard = (legacy: TestClient, frequencyHz = 800) =>
  vi.waitFor(async () => {
    expect(legacy.frames.length).toBeGreaterThan(75);
    expect(peakHz(await lastSecondOf(legacy))).toBe(frequencyHz);
  }, SETTLING);
const expectToHear = (browser: TestBrowser, peer: string, frequencyHz: number) =>
  vi.waitFor(async () => expect(peakHz(await browser.hear(peer))).toBe(frequencyHz), SETTLING);

/** The buttons still do what they say. */
async function expectMuteAndLeave(browser: TestBrowser, peer: string, legacy: TestClient) {
  await browser.page.click('#mute');
  await vi.waitFor(async () => {
    const before = legacy.frames.length;
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(legacy.frames.length).toBe(before);
  }, SETTLING);
  await browser.page.click('#mute');
  legacy.frames.length = 0;
  await expectHeard(legacy);
  await browser.page.click('#leave');
  await vi.waitFor(() => expect(commotionOf(peer, legacy).at(-1)).toBe('peer_left'), SETTLING);
}

test('a connection is cut for 3 s: the sound goes on both ways, and then all is as it should be', async () => {
  const { url, apiKey } = await openGateway(KEEP);
  const gateway = { url, apiKey };
  const proxy = await openProxy(url);
  const [legacy, going] = [await inKitchen(gateway, 'door phone'), await inKitchen(gateway, 'eve')];
  say(legacy, await toneOf(1000));
  const browser = await openBrowser(proxy.url, apiKey, 'Ada');
  await expectToHear(browser, 'door phone', 1000);
  await expectHeard(legacy);
  // What takes long is done before and after: the gateway runs in this process too.
  const tone = await toneOf(2000);
  const endListening = await browser.listenTo('door phone');
  const [fromMs, framesBefore] = [performance.now(), legacy.frames.length];

  proxy.cut();
  const status = browser.page.locator('#room-status');
  await vi.waitFor(async () => expect(await status.innerText()).toMatch(/sound goes on/), SETTLING);
  await going.close();
  const coming = await inKitchen(gateway, 'bob');
  const speech = say(coming, tone);
  await new Promise((resolve) => setTimeout(resolve, fromMs + 3000 - performance.now()));
  proxy.leadTo(url);

  await browser.person('bob').waitFor();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const awayMs = performance.now() - fromMs;
  const missingMs = awayMs - (legacy.frames.length - framesBefore) * FRAME_MS;
  const silentMs = await endListening();
  expect(silentMs).toBeLessThan(MAX_GAP_MS);
  expect(missingMs).toBeLessThan(MAX_GAP_MS);
  expect(await browser.names()).toEqual(['Ada', 'door phone', 'bob']);
  await expectToHear(browser, 'bob', 2000);
  expect(commotionOf('Ada', legacy)).toEqual(['peer_joined']);
  await speech.close();
  await expectMuteAndLeave(browser, 'Ada', legacy);
});

test('its node goes away: the browser is on another, nobody saw it leave, and it talks again', async () => {
  const [one, other] = await openNodes(2, { ...KEEP, DRAIN_MS: '3000' });
  const proxy = await openProxy(one!.url);
  const legacy = await inKitchen(other!, 'door phone');
  say(legacy, await toneOf(1000));
  const browser = await openBrowser(proxy.url, one!.apiKey, 'Ada');
  await expectToHear(browser, 'door phone', 1000);
  await expectHeard(legacy);

  proxy.leadTo(other!.url);
  await one!.drain();
  await one!.close();
  legacy.frames.length = 0;
  await legacy.until('Ada’s voice', () => legacy.frames[9], 10_000);
  await expectHeard(legacy);
  await expectToHear(browser, 'door phone', 1000);
  expect(commotionOf('Ada', legacy)).toEqual(['peer_joined']);
  await expectMuteAndLeave(browser, 'Ada', legacy);
});
