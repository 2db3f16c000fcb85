import { expect, test, vi } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import {
  amplitudeOf,
  joinPcm,
  keepPlaying,
  lastSecondOf,
  opusTone,
  pcmTone,
  peakHz,
  toDb,
} from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** How long a stretch of sound may take to come that is as it should be: on a busy machine some are torn. */
const SETTLING = { timeout: 20_000, interval: 200 };

/** The amplitude of what the microphones hear. */
const SPOKEN = 0.5;
const PCM = 'pcm_s16le;rate=48000;channels=1';

const used = useGateway();

async function openBrowser(peer: string, microphoneHz: number): Promise<TestBrowser> {
  const browser = used.keep(await TestBrowser.openRaw(used.gateway.url, microphoneHz));
  await browser.join('a', peer, used.gateway.apiKey);
  return browser;
}

/** Within 1.5 dB of what was said. */
const expectLevel = (heard: Float32Array, frequencyHz: number, amplitude: number) =>
  expect(Math.abs(toDb(amplitudeOf(heard, frequencyHz) / amplitude))).toBeLessThan(1.5);

const expectSilence = (heard: Float32Array, frequencyHz: number, amplitude: number) =>
  expect(toDb(amplitudeOf(heard, frequencyHz) / amplitude)).toBeLessThan(-40);

test('a WebSocket peer sends a 1 kHz tone as Opus: the browser hears 1 kHz', async () => {
  const browser = await openBrowser('browser', 800);
  const legacy = await used.enter('legacy');
  used.keep(keepPlaying(legacy, await opusTone(1000, 0.5, 10_000)));
  await vi.waitFor(async () => {
    const heard = await browser.hear('legacy');
    expect(peakHz(heard)).toBe(1000);
    expectLevel(heard, 1000, 0.5);
    expectSilence(heard, 800, SPOKEN);
  }, SETTLING);
});

test('the browser’s microphone hears 800 Hz: the WebSocket peer decodes 800 Hz', async () => {
  const legacy = await used.enter('legacy');
  await openBrowser('browser', 800);
  await legacy.until('two seconds of sound', () => legacy.frames.length > 100 || undefined, 10_000);
  await vi.waitFor(async () => {
    const heard = await lastSecondOf(legacy);
    expect(peakHz(heard)).toBe(800);
    expectLevel(heard, 800, SPOKEN);
  }, SETTLING);
});

test('a PCM peer and two browsers: each hears the two others and not itself', async () => {
  const legacy = await used.enter('legacy', { audio: PCM });
  used.keep(keepPlaying(legacy, pcmTone(2000, 0.3, 10_000)));
  const one = await openBrowser('one', 700);
  const two = await openBrowser('two', 1300);
  const tones = { legacy: [2000, 0.3], one: [700, SPOKEN], two: [1300, SPOKEN] } as const;
  const expectTones = (heard: Float32Array, self: keyof typeof tones) => {
    for (const [peer, [frequencyHz, amplitude]] of Object.entries(tones)) {
      if (peer === self) expectSilence(heard, frequencyHz, amplitude);
      else expectLevel(heard, frequencyHz, amplitude);
    }
  };
  await vi.waitFor(async () => expectTones(await one.hear('legacy', 'two'), 'one'), SETTLING);
  await vi.waitFor(async () => expectTones(await two.hear('legacy', 'one'), 'two'), SETTLING);
  await vi.waitFor(() => {
    const heard = joinPcm(legacy.frames.slice(-50));
    expect(heard.length).toBeGreaterThan(40_000);
    expectTones(heard, 'legacy');
  }, SETTLING);
});
