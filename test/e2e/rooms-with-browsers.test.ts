import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import { TestClient } from '../support/client.ts';
import { eventually, openTestGateway, type TestGateway } from '../support/gateway.ts';
import {
  amplitudeOf,
  decodeOpus,
  joinPcm,
  opusTone,
  pcmTone,
  peakHz,
  play,
  toDb,
} from '../support/sound.ts';

let gateway: TestGateway;
const opened: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());
afterEach(async () => {
  await Promise.all(opened.splice(0).map((part) => part.close()));
  await eventually('everything is let go', () => {
    const { sessions, rooms } = gateway.counts();
    return sessions === 0 && rooms === 0;
  });
});

async function openBrowser(microphoneHz: number): Promise<TestBrowser> {
  const browser = await TestBrowser.open(gateway.url, microphoneHz);
  opened.push(browser);
  return browser;
}

async function enter(peer: string, audio: string): Promise<TestClient> {
  const query = { room: 'mixed', peer, api_key: gateway.apiKey, audio };
  const client = await TestClient.connect(gateway.url, query);
  opened.push(client);
  await client.next('joined');
  return client;
}

test('a WebSocket peer sends a 1 kHz tone as Opus: the browser hears 1 kHz', async () => {
  const browser = await openBrowser(800);
  await browser.join('mixed', 'browser', gateway.apiKey);
  const legacy = await enter('legacy', 'opus');
  const playing = play(legacy, await opusTone(1000, 0.5, 4000));
  const heard = await browser.hear('legacy');
  await playing;
  expect(peakHz(heard)).toBe(1000);
  expect(Math.abs(toDb(amplitudeOf(heard, 1000) / 0.5))).toBeLessThan(1.5);
});

test('the browser’s microphone hears 800 Hz: the WebSocket peer decodes 800 Hz', async () => {
  const legacy = await enter('legacy', 'opus');
  const browser = await openBrowser(800);
  await browser.join('mixed', 'browser', gateway.apiKey);
  await eventually('two seconds of sound', () => legacy.frames.length > 100);
  const heard = await decodeOpus(legacy.frames.slice(50));
  expect(peakHz(heard)).toBe(800);
  expect(Math.abs(toDb(amplitudeOf(heard.slice(0, 24_000), 800) / 0.5))).toBeLessThan(1.5);
});

test('a PCM peer and two browsers: each hears the two others and not itself', async () => {
  const [one, two] = [await openBrowser(700), await openBrowser(1300)];
  const legacy = await enter('legacy', 'pcm_s16le;rate=48000;channels=1');
  await one.join('mixed', 'one', gateway.apiKey);
  await two.join('mixed', 'two', gateway.apiKey);
  const playing = play(legacy, pcmTone(2000, 0.3, 8000));
  const heardByOne = [await one.hear('legacy'), await one.hear('two')];
  const heardByTwo = [await two.hear('legacy'), await two.hear('one')];
  await playing;
  const heardByLegacy = joinPcm(legacy.frames).subarray(-96_000, -48_000);

  expect(heardByOne.map(peakHz)).toEqual([2000, 1300]);
  expect(heardByTwo.map(peakHz)).toEqual([2000, 700]);
  for (const heard of heardByOne) expect(toDb(amplitudeOf(heard, 700) / 0.3)).toBeLessThan(-40);
  for (const heard of heardByTwo) expect(toDb(amplitudeOf(heard, 1300) / 0.3)).toBeLessThan(-40);
  expect(toDb(amplitudeOf(heardByLegacy, 700) / 0.5)).toBeGreaterThan(-1.5);
  expect(toDb(amplitudeOf(heardByLegacy, 1300) / 0.5)).toBeGreaterThan(-1.5);
  expect(toDb(amplitudeOf(heardByLegacy, 2000) / 0.5)).toBeLessThan(-40);
});

test('the page shows who is there and who speaks, mutes, leaves, and is told of by the others', async () => {
  const legacy = await enter('legacy', 'opus');
  const browser = await openBrowser(800);
  const { page } = browser;
  await browser.join('mixed', 'Ada', gateway.apiKey);
  expect(await legacy.next('peer_joined')).toMatchObject({ peer: 'Ada', kind: 'webrtc' });
  await page.locator('.person', { hasText: 'legacy' }).waitFor();
  await legacy.until('speaking of Ada', () =>
    legacy.messages.find(
      (message) => message.type === 'speaking' && message.peers.some(({ peer }) => peer === 'Ada'),
    ),
  );

  const playing = play(legacy, await opusTone(1000, 0.5, 2500));
  await page.waitForFunction(() => {
    const state = window.partyline?.state;
    return state?.name === 'in_room' && state.speaking.has('legacy');
  });
  const screenshot = process.env['SCREENSHOT'];
  if (screenshot) await page.screenshot({ path: screenshot });
  await playing;

  const before = legacy.messages.length;
  await page.click('#mute');
  await legacy.until('silence', () =>
    legacy.messages
      .slice(before)
      .find((message) => message.type === 'speaking' && message.peers.length === 0),
  );
  const framesWhenMuted = legacy.frames.length;
  await page.click('#leave');
  expect(await legacy.next('peer_left')).toMatchObject({ peer: 'Ada', reason: 'left' });
  await page.locator('#entrance').waitFor({ state: 'visible' });
  expect(legacy.frames.length).toBe(framesWhenMuted);
});

test('a wrong key is told in words', async () => {
  const browser = await openBrowser(800);
  const { page } = browser;
  await browser.enter('mixed', 'Ada', 'pl_wrong');
  await page.locator('#entrance-error').waitFor({ state: 'visible' });
  expect(await page.locator('#entrance-error').innerText()).toMatch(/key/i);
});

test('a tab that is closed leaves the room, and so does a browser that is killed', async () => {
  const legacy = await enter('legacy', 'opus');
  const [ada, eve] = [await openBrowser(800), await openBrowser(900)];
  await ada.join('mixed', 'Ada', gateway.apiKey);
  await eve.join('mixed', 'Eve', gateway.apiKey);
  const leftAs = (name: string) =>
    legacy.until(`peer_left of ${name}`, () =>
      legacy.messages.find((message) => message.type === 'peer_left' && message.peer === name),
    );
  await ada.page.close();
  expect(await leftAs('Ada')).toMatchObject({ reason: 'left' });
  await eve.kill();
  expect(await leftAs('Eve')).toMatchObject({ reason: 'closed' });
});

test('a page whose connection breaks comes back by itself, and hears again', async () => {
  const browser = await openBrowser(800);
  await browser.join('mixed', 'Ada', gateway.apiKey);
  const legacy = await enter('legacy', 'opus');
  await browser.page.evaluate(() => {
    document.body.dataset['states'] = '';
    window.partyline?.on('change', ({ name }) => (document.body.dataset['states'] += ` ${name}`));
  });
  for (const pid of gateway.mediaWorkerPids()) process.kill(pid, 'SIGKILL');
  expect(await legacy.closed).toBe(4504);
  await browser.page.waitForFunction(() =>
    / reconnecting .*in_room$/.test(document.body.dataset['states'] ?? ''),
  );
  const again = await enter('legacy', 'opus');
  const playing = play(again, await opusTone(1000, 0.5, 4000));
  expect(peakHz(await browser.hear('legacy'))).toBe(1000);
  await playing;
});
