import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { DesktopBrowser } from '../support/desktop-browser.ts';
import { TestProxy } from '../support/proxy.ts';
import { SETTLING } from '../support/settling.ts';
import { keepPlaying, lastSecondOf, opusTone, peakHz, tone } from '../support/sound.ts';
import { SoundCard } from '../support/sound-card.ts';
import { useStack } from '../support/use-stack.ts';

/**
 * A page on a desktop: the laptop sleeps, speakers change and are unplugged. Sound counts as played when it arrives at the sound card.
 */

const ROOM = 'a';
const MICROPHONE_HZ = 800;
const LEGACY_HZ = 1000;
const LEGACY_AMPLITUDE = 0.5;

/** Wait until the browser throttles a hidden page that plays nothing, which it does half a minute after the last sound. */
const THROTTLING = { timeout: 120_000, interval: 0 };

const { openGateway, enter, cleanUps } = useStack();

let gateway: { url: string; apiKey: string };
let proxy: TestProxy;
let card: SoundCard;
let browser: DesktopBrowser;
let legacy: TestClient;

beforeEach(async () => {
  gateway = await openGateway();
  proxy = await TestProxy.open(gateway.url);
  cleanUps.push(() => proxy.close());
  card = await SoundCard.open();
  cleanUps.push(() => card.close());
  const voice = card.keepSpeaking(tone(MICROPHONE_HZ, 0.5, 1000));
  cleanUps.push(() => voice.close());
  legacy = await enter(gateway, 'door phone');
});

async function open(transport: 'webrtc' | 'websocket'): Promise<void> {
  browser = await DesktopBrowser.open(`${proxy.url}/?raw&transports=${transport}`, card);
  cleanUps.push(() => browser.close());
}

async function join(transport: 'webrtc' | 'websocket'): Promise<void> {
  await open(transport);
  await browser.join(ROOM, 'Ada', gateway.apiKey);
}

async function speak(): Promise<() => Promise<void>> {
  const speech = keepPlaying(legacy, await opusTone(LEGACY_HZ, LEGACY_AMPLITUDE, 10_000));
  cleanUps.push(() => speech.close());
  return () => speech.close();
}

/** Returns the amplitude of the tone that the speakers play, 0 to 1. */
async function playedAmplitude(): Promise<number> {
  const samples = await card.played();
  const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
  return Math.sqrt(2 * power);
}

/** Returns the frequency that speakers play for half a second, Hz; 0 for silence. */
async function playedHz(speakers: string): Promise<number> {
  const last = await card.played(speakers);
  return last.some((sample) => Math.abs(sample) > 0.05) ? peakHz(last) : 0;
}

const expectPlayed = (speakers = 'speakers') =>
  vi.waitFor(async () => expect(await playedHz(speakers)).toBe(LEGACY_HZ), SETTLING);

const expectHeard = () => {
  legacy.frames.length = 0;
  return vi.waitFor(async () => {
    expect(legacy.frames.length).toBeGreaterThan(75);
    expect(peakHz(await lastSecondOf(legacy))).toBe(MICROPHONE_HZ);
  }, SETTLING);
};

const toldSince = (told: number) => legacy.messages.slice(told).map(({ type }) => type);

test('sound that the browser stops to play over the WebSocket goes on', async () => {
  await open('websocket');
  await browser.page.evaluate(() => {
    const contexts: AudioContext[] = [];
    Object.assign(window, { contexts });
    window.AudioContext = class extends AudioContext {
      constructor(options?: AudioContextOptions) {
        super(options);
        contexts.push(this);
      }
    };
  });
  await browser.join(ROOM, 'Ada', gateway.apiKey);
  await speak();
  await expectPlayed();
  await browser.page.evaluate(async () => {
    const contexts = Reflect.get(window, 'contexts') as AudioContext[];
    await Promise.all(contexts.map((context) => context.suspend()));
  });
  expect(toldSince(0)).not.toContain('peer_left');
  await expectPlayed();
  await expectHeard();
}, 120_000);

test.each(['webrtc', 'websocket'] as const)(
  'over %s the page tells that the system has muted the microphone, until it is on again',
  async (transport) => {
    await join(transport);
    await expectHeard();
    const status = () => browser.page.$eval('#room-status', ({ textContent }) => textContent);
    expect(await status()).toContain('You are in the room');
    await card.muteMicrophone(true);
    await expect.poll(status, SETTLING).toContain('has muted the microphone');
    await card.muteMicrophone(false);
    await expect.poll(status, SETTLING).toContain('You are in the room');
    await expectHeard();
    expect(await browser.page.evaluate(() => window.partyline?.transport)).toBe(transport);
  },
  120_000,
);

test.for([
  { transport: 'websocket', pace: 'once a minute', mostTurns: 3, furtherMs: 60_000 },
  // Chromium spares pages with WebRTC: their timers run once a second.
  { transport: 'webrtc', pace: 'once a second', mostTurns: 15, furtherMs: 0 },
] as const)(
  'over $transport a page that is hidden until its timers run $pace hears, and is heard when it speaks',
  { timeout: 300_000 },
  async ({ transport, mostTurns, furtherMs }, { annotate }) => {
    await open(transport);
    // A page with an open microphone is not throttled so.
    await browser.join(ROOM, 'Ada', gateway.apiKey, '#listen');
    const stopSpeaking = await speak();
    await expectPlayed();
    await stopSpeaking();
    await browser.page.evaluate(() => {
      const counter = { turns: 0 };
      Object.assign(window, { counter });
      const count = () => {
        counter.turns += 1;
        setTimeout(count, 100);
      };
      count();
    });
    const turns = () =>
      browser.page.evaluate(() => (Reflect.get(window, 'counter') as { turns: number }).turns);
    await browser.hide();
    const hiddenMs = performance.now();
    expect(await browser.page.evaluate(() => document.visibilityState)).toBe('hidden');
    // In other hidden pages the timer of the count runs once a second.
    const turnsInTenSeconds = async () => {
      const before = await turns();
      await sleep(10_000);
      return (await turns()) - before;
    };
    await expect.poll(turnsInTenSeconds, THROTTLING).toBeLessThan(mostTurns);
    await sleep(furtherMs);
    expect(await turnsInTenSeconds()).toBeLessThan(mostTurns);
    await speak();
    await expectPlayed();
    await browser.page.evaluate(() => document.querySelector<HTMLElement>('#mute')?.click());
    await expectHeard();
    expect(await browser.page.evaluate(() => document.visibilityState)).toBe('hidden');
    await annotate(`hidden for ${Math.round((performance.now() - hiddenMs) / 1000)} s`);
    expect(toldSince(0)).not.toContain('peer_left');
    expect(toldSince(0)).not.toContain('peer_changed');
  },
);

describe.each(['webrtc', 'websocket'] as const)('over %s', (transport) => {
  test('stats() tells the same of all sound', async () => {
    await join(transport);
    await speak();
    await expectPlayed();
    // Round trips are told every 5 s.
    const stats = () => browser.page.evaluate(() => window.partyline?.stats());
    await expect.poll(stats, SETTLING).toEqual({
      transport,
      mouthToEarMs: expect.any(Number),
      rttMs: expect.any(Number),
      jitterMs: expect.any(Number),
      lossRatio: expect.any(Number),
      underruns: expect.any(Number),
      sentBitrate: expect.any(Number),
      receivedBitrate: expect.any(Number),
    });
  });

  test('a laptop that slept is back in its room by itself, heard and hearing', async () => {
    await join(transport);
    await speak();
    await expectPlayed();
    browser.sleep();
    await sleep(12_000);
    browser.wake();
    await expectPlayed();
    await expectHeard();
    expect(toldSince(0)).not.toContain('peer_left');
  }, 120_000);

  test('sound follows the default speakers, and goes back to them when those that were chosen are unplugged', async () => {
    const unplug = await card.plugIn('headset');
    await join(transport);
    await speak();
    await expectPlayed();
    await card.setDefaultSpeakers('headset');
    await expectPlayed('headset');
    await card.setDefaultSpeakers('speakers');
    await expectPlayed();
    await browser.page.evaluate(async () => {
      const devices = await navigator.mediaDevices.enumerateDevices();
      const headset = devices.find(
        ({ kind, label }) => kind === 'audiooutput' && label === 'headset',
      );
      await window.partyline?.setSpeaker(headset?.deviceId ?? 'none');
    });
    await expectPlayed('headset');
    expect(await playedHz('speakers')).toBe(0);
    await unplug();
    await expectPlayed();
  }, 120_000);

  test('the volume of a peer is that of what the speakers play', async () => {
    await join(transport);
    await speak();
    await expectPlayed();
    for (const gain of [0.5, 1.5, 1]) {
      const setGain = (wanted: number) => window.partyline?.setVolume('door phone', wanted);
      await browser.page.evaluate(setGain, gain);
      await vi.waitFor(
        async () => expect((await playedAmplitude()) / LEGACY_AMPLITUDE).toBeCloseTo(gain, 1),
        SETTLING,
      );
    }
  });
});
