import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { SETTLING } from '../support/settling.ts';
import { slownessOfMachine } from '../support/slowness.ts';
import { LEGACY_AMPLITUDE, useDesktop } from '../support/use-desktop.ts';

/** A page on a desktop: the laptop sleeps, speakers change and are unplugged. Sound counts as played when it arrives at the sound card. */

const desktop = useDesktop();
const { open, join, speak, playedHz, expectPlayed, expectHeard, toldSince } = desktop;

/** Returns the amplitude of the tone that the speakers play, 0 to 1. */
async function playedAmplitude(): Promise<number> {
  const samples = await desktop.card.played();
  const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
  return Math.sqrt(2 * power);
}

test('sound that the browser stops to play over the WebSocket goes on', async () => {
  await open('websocket');
  await desktop.browser.page.evaluate(() => {
    const contexts: AudioContext[] = [];
    Object.assign(window, { contexts });
    window.AudioContext = class extends AudioContext {
      constructor(options?: AudioContextOptions) {
        super(options);
        contexts.push(this);
      }
    };
  });
  await desktop.press();
  await speak();
  await expectPlayed();
  await desktop.browser.page.evaluate(async () => {
    const contexts = Reflect.get(window, 'contexts') as AudioContext[];
    await Promise.all(contexts.map((context) => context.suspend()));
  });
  expect(toldSince(0)).not.toContain('peer_left');
  await expectPlayed();
  await expectHeard();
});

test.each(['webrtc', 'websocket'] as const)(
  'over %s the page tells that the system has muted the microphone, until it is on again',
  async (transport) => {
    await join(transport);
    await expectHeard();
    const status = () =>
      desktop.browser.page.$eval('#room-status', ({ textContent }) => textContent);
    expect(await status()).toContain('You are in the room');
    await desktop.card.muteMicrophone(true);
    await expect.poll(status, SETTLING).toContain('has muted the microphone');
    await desktop.card.muteMicrophone(false);
    await expect.poll(status, SETTLING).toContain('You are in the room');
    await expectHeard();
    expect(await desktop.browser.page.evaluate(() => window.partyline?.transport)).toBe(transport);
  },
);

describe.each(['webrtc', 'websocket'] as const)('over %s', (transport) => {
  test('stats() tells the same of all sound', async () => {
    await join(transport);
    await speak();
    await expectPlayed();
    // Round trips are told every 5 s.
    const stats = () => desktop.browser.page.evaluate(() => window.partyline?.stats());
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
    desktop.browser.sleep();
    await sleep(12_000);
    desktop.browser.wake();
    await expectPlayed();
    await expectHeard();
    expect(toldSince(0)).not.toContain('peer_left');
  });

  test('sound follows the default speakers, and goes back to them when those that were chosen are unplugged', async () => {
    const unplug = await desktop.card.plugIn('headset');
    await join(transport);
    await speak();
    await expectPlayed();
    await desktop.card.setDefaultSpeakers('headset');
    await expectPlayed('headset');
    await desktop.card.setDefaultSpeakers('speakers');
    await expectPlayed();
    await desktop.browser.page.evaluate(async () => {
      const devices = await navigator.mediaDevices.enumerateDevices();
      const headset = devices.find(
        ({ kind, label }) => kind === 'audiooutput' && label === 'headset',
      );
      await window.partyline?.setSpeaker(headset?.deviceId ?? 'none');
    });
    await expectPlayed('headset');
    const playedAtMs = performance.now();
    await expect.poll(() => playedHz('speakers'), SETTLING).toBe(0);
    expect(performance.now() - playedAtMs).toBeLessThan(3000 * (await slownessOfMachine()));
    await unplug();
    await expectPlayed();
  });

  test('the volume of a peer is that of what the speakers play', async () => {
    await join(transport);
    await speak();
    await expectPlayed();
    for (const gain of [0.5, 1.5, 1]) {
      const setGain = (wanted: number) => window.partyline?.setVolume('door phone', wanted);
      await desktop.browser.page.evaluate(setGain, gain);
      await vi.waitFor(
        async () => expect((await playedAmplitude()) / LEGACY_AMPLITUDE).toBeCloseTo(gain, 1),
        SETTLING,
      );
    }
  });
});
