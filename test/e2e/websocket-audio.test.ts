import { expect, test, vi } from 'vitest';
import { shareBrowsers, TestBrowser } from '../support/browser.ts';
import { TestClient } from '../support/client.ts';
import { openTestGateway } from '../support/gateway.ts';
import { SETTLING } from '../support/settling.ts';
import { amplitudeOf, keepPlaying, lastSecondOf, opusTone, peakHz } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** The page with its sound over the WebSocket, in a real browser. */

const ROOM = 'kitchen';

shareBrowsers();
const used = useGateway();

async function openBrowser(): Promise<TestBrowser> {
  return used.keep(await TestBrowser.openRaw(used.gateway.url, 800, 'websocket'));
}

const enter = (peer: string) => used.enter(peer, { room: ROOM });

test('sound goes both ways over the WebSocket, and mute and volume hold', async () => {
  const legacy = await enter('door phone');
  const faults: string[] = [];
  const ada = await openBrowser();
  ada.page.on('console', (message) => {
    if (message.type() === 'error') faults.push(message.text());
  });
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  expect(await legacy.next('peer_joined')).toMatchObject({ peer: 'Ada', kind: 'websocket' });
  expect(await ada.page.evaluate(() => window.partyline?.transport)).toBe('websocket');

  const isHeard = async () => {
    expect(legacy.frames.length).toBeGreaterThan(60);
    const heard = await lastSecondOf(legacy);
    expect(peakHz(heard)).toBe(800);
    expect(amplitudeOf(heard, 800)).toBeCloseTo(0.5, 1);
  };
  await vi.waitFor(isHeard, SETTLING);

  used.keep(keepPlaying(legacy, await opusTone(1000, 0.5, 20_000)));
  await vi.waitFor(async () => {
    const heard = await ada.hearMix();
    expect(peakHz(heard)).toBe(1000);
    expect(amplitudeOf(heard, 1000)).toBeCloseTo(0.5, 1);
  }, SETTLING);

  await ada.page.evaluate(() => window.partyline?.setVolume('door phone', 0.25));
  await vi.waitFor(async () => {
    expect(amplitudeOf(await ada.hearMix(), 1000)).toBeCloseTo(0.125, 1);
  }, SETTLING);

  await ada.page.click('#mute');
  expect(await legacy.next('peer_changed')).toMatchObject({ peer: 'Ada', muted: true });
  await ada.page.click('#mute');
  legacy.frames.length = 0;
  await vi.waitFor(isHeard, SETTLING);

  await vi.waitFor(async () => {
    const stats = await ada.page.evaluate(() => window.partyline?.stats());
    expect(stats?.transport).toBe('websocket');
    expect(stats?.sentBitrate).toBeGreaterThan(2000);
    expect(stats?.receivedBitrate).toBeGreaterThan(2000);
  }, SETTLING);
  // One window may have been disturbed, on a busy machine.
  await vi.waitFor(
    async () => {
      const stats = await ada.page.evaluate(() => window.partyline?.stats());
      expect(stats?.lossRatio).toBe(0);
    },
    { timeout: 10_000, interval: 100 },
  );
  expect(faults).toEqual([]);
});

test('a move to another room over the WebSocket: it is heard there', async () => {
  const legacy = await used.enter('intercom', { room: 'hall' });
  used.keep(keepPlaying(legacy, await opusTone(1000, 0.5, 20_000)));
  const before = await enter('door phone');
  const ada = await openBrowser();
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  // The page has joined, and speaks.
  await before.until('half a second of Ada', () => before.frames.length > 25 || undefined);
  await ada.page.evaluate(() => window.partyline?.join('hall'));
  await vi.waitFor(async () => expect(peakHz(await ada.hearMix())).toBe(1000), SETTLING);
});

test('a browser without WebCodecs encodes with libopus in a worker', async () => {
  const legacy = await enter('door phone');
  const ada = await openBrowser();
  await ada.page.evaluate(() => Reflect.deleteProperty(window, 'AudioEncoder'));
  await ada.join(ROOM, 'Ada', used.gateway.apiKey);
  await vi.waitFor(async () => {
    expect(legacy.frames.length).toBeGreaterThan(60);
    expect(peakHz(await lastSecondOf(legacy))).toBe(800);
  }, SETTLING);
});

test('where WebRTC finds no way, sound goes over the WebSocket; the next time at once', async () => {
  const RTC_LISTEN_IP = '127.0.0.1=192.0.2.250';
  const gateway = used.keep(await openTestGateway({ RTC_LISTEN_IP, RTC_TCP: 'false' }));
  const { url, apiKey: api_key } = gateway;
  const query = { room: ROOM, peer: 'door phone', api_key, audio: 'opus' };
  const legacy = used.keep(await TestClient.connect(url, query));
  await legacy.next('joined');
  used.keep(keepPlaying(legacy, await opusTone(1000, 0.5, 30_000)));
  const ada = used.keep(await TestBrowser.openRaw(url, 800, 'webrtc,websocket'));
  await ada.join(ROOM, 'Ada', api_key);
  expect(await legacy.next('peer_joined')).toMatchObject({ peer: 'Ada', kind: 'webrtc' });
  const changed = await legacy.next('peer_changed');
  expect(changed).toMatchObject({ peer: 'Ada', kind: 'websocket' });
  const transport = () => ada.page.evaluate(() => window.partyline?.transport);
  await expect.poll(transport, SETTLING).toBe('websocket');
  await vi.waitFor(async () => {
    expect(legacy.frames.length).toBeGreaterThan(60);
    expect(peakHz(await lastSecondOf(legacy))).toBe(800);
    expect(peakHz(await ada.hearMix())).toBe(1000);
  }, SETTLING);
  expect(await ada.page.locator('#room-way').innerText()).toMatch(/uses the WebSocket/);
  expect(legacy.messages.map(({ type }) => type)).not.toContain('peer_left');

  await ada.page.click('#leave');
  await legacy.next('peer_left');
  const toldBefore = legacy.messages.length;
  await ada.page.click('#join');
  expect(await legacy.next('peer_joined', toldBefore)).toMatchObject({
    peer: 'Ada',
    kind: 'websocket',
  });
});
