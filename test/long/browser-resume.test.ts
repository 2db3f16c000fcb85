import { expect, test, vi } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import type { TestClient } from '../support/client.ts';
import { TestProxy } from '../support/proxy.ts';
import { SETTLING } from '../support/settling.ts';
import { slownessOfMachine } from '../support/slowness.ts';
import {
  amplitudeOf,
  decodeOpus,
  keepPlaying,
  lastSecondOf,
  opusTone,
  peakHz,
  toDb,
} from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

/** A browser whose connection is lost, and who is back: to its transports, or on another node to new ones. */

const ROOM = 'kitchen';
/** The amplitude of all that is said. */
const SPOKEN = 0.5;
const KEEP = { RESUME_MS: '15000' };
const FRAME_MS = 20;
/** On the machine on which the limits of tests were set: a slower one takes as much longer (decision 191). */
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

const toneOf = (frequencyHz: number) => opusTone(frequencyHz, SPOKEN, 10_000);
const say = (client: TestClient, tone: Buffer[]) => keep(keepPlaying(client, tone));

/** Messages that told the others of a peer's coming and going. */
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

/** The highest sample of all that a listener has heard. */
const loudest = async ({ frames }: TestClient) =>
  (await decodeOpus(frames)).reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);

const expectNothing = (legacy: TestClient) =>
  vi.waitFor(async () => {
    const before = legacy.frames.length;
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(legacy.frames.length).toBe(before);
  }, SETTLING);

/** The buttons still do what they say. */
async function expectMuteAndLeave(browser: TestBrowser, peer: string, legacy: TestClient) {
  await browser.page.click('#mute');
  await expectNothing(legacy);
  await browser.page.click('#mute');
  legacy.frames.length = 0;
  await expectHeard(legacy);
  await browser.page.click('#leave');
  await vi.waitFor(() => expect(commotionOf(peer, legacy).at(-1)).toBe('peer_left'), SETTLING);
}

test('a connection is cut for 3 s: the sound goes on both ways, and then all is as it should be', async () => {
  const slownessBefore = await slownessOfMachine();
  const { url, apiKey } = await openGateway(KEEP);
  const gateway = { url, apiKey };
  const proxy = await openProxy(url);
  const [legacy, going] = [await inKitchen(gateway, 'door phone'), await inKitchen(gateway, 'eve')];
  say(legacy, await toneOf(1000));
  const browser = await openBrowser(proxy.url, apiKey, 'Ada');
  await expectToHear(browser, 'door phone', 1000);
  await expectHeard(legacy);
  // Long work is done before and after: the gateway runs in this process, too.
  const tone = await toneOf(2000);
  const endListening = await browser.listenTo('door phone');
  const fromMs = performance.now();
  // Frames are counted at the moments of the browser's own counts, however long its answers take.
  const heardAtMs: number[] = [];
  legacy.onFrame = () => heardAtMs.push(Date.now());
  const before = await browser.packetsSent();

  proxy.cut();
  const status = browser.page.locator('#room-status');
  await vi.waitFor(
    async () => expect(await status.innerText()).toMatch(/audio continues/),
    SETTLING,
  );
  await going.close();
  const coming = await inKitchen(gateway, 'bob');
  const speech = say(coming, tone);
  await new Promise((resolve) => setTimeout(resolve, fromMs + 3000 - performance.now()));
  proxy.leadTo(url);

  await browser.person('bob').waitFor();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  // Counted by what was sent: a machine that is too busy to speak for a moment is not silence.
  const after = await browser.packetsSent();
  const sent = after.packets - before.packets;
  const missing = sent - heardAtMs.filter((ms) => ms > before.atMs && ms <= after.atMs).length;
  expect(sent).toBeGreaterThan(3000 / FRAME_MS / 2);
  const silentMs = await endListening();
  expect(await browser.names()).toEqual(['Ada', 'door phone', 'bob']);
  await expectToHear(browser, 'bob', 2000);
  expect(commotionOf('Ada', legacy)).toEqual(['peer_joined']);
  await speech.close();
  await expectMuteAndLeave(browser, 'Ada', legacy);
  // Measured without the browser's own load.
  await browser.close();
  const mostMs = MAX_GAP_MS * Math.max(slownessBefore, await slownessOfMachine());
  expect(silentMs).toBeLessThan(mostMs);
  expect(missing * FRAME_MS).toBeLessThan(mostMs);
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
  await one!.leave();
  legacy.frames.length = 0;
  await legacy.until('Ada’s voice', () => legacy.frames[9], SETTLING.timeout);
  await expectHeard(legacy);
  await expectToHear(browser, 'door phone', 1000);
  expect(commotionOf('Ada', legacy)).toEqual(['peer_joined']);
  await expectMuteAndLeave(browser, 'Ada', legacy);
});

/** A browser and a WebSocket peer who hear each other, and the way of the browser's, which can be cut. */
async function openTalk(environment: Record<string, string>) {
  const gateway = await openGateway({ ...environment, MEDIA_WORKERS: '1' });
  const proxy = await openProxy(gateway.url);
  const legacy = await inKitchen(gateway, 'door phone');
  say(legacy, await toneOf(1000));
  const browser = await openBrowser(proxy.url, gateway.apiKey, 'Ada');
  await expectToHear(browser, 'door phone', 1000);
  await expectHeard(legacy);
  const cut = async () => {
    proxy.cut();
    const status = browser.page.locator('#room-status');
    await vi.waitFor(
      async () => expect(await status.innerText()).toMatch(/Trying again/),
      SETTLING,
    );
  };
  return { gateway, legacy, browser, cut, restore: () => proxy.leadTo(gateway.url) };
}

test('unreachable for most of the time for which its place is kept: the browser is back in time', async () => {
  const keptMs = Math.round(6000 * (await slownessOfMachine()));
  const { legacy, browser, cut, restore } = await openTalk({ RESUME_MS: String(keptMs) });
  const fromMs = performance.now();
  await cut();
  await new Promise((resolve) => setTimeout(resolve, fromMs + 0.58 * keptMs - performance.now()));
  restore();
  const status = browser.page.locator('#room-status');
  await vi.waitFor(
    async () => expect(await status.innerText()).toMatch(/You are in the room/),
    SETTLING,
  );
  expect(commotionOf('Ada', legacy)).toEqual(['peer_joined']);
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
  await ada.page.click('#mute');
  legacy.frames.length = 0;
  await expectHeard(legacy, 1300);
  expect(toDb(amplitudeOf(await lastSecondOf(legacy), 700) / SPOKEN)).toBeLessThan(-40);
  await ada.page.click('#leave');
  await grace.person('Ada').waitFor({ state: 'detached' });
});
