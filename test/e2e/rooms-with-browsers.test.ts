import { describe, expect, test, vi } from 'vitest';
import { parseAudioFormat, type SampleFormat } from '../../src/audio/format.ts';
import { TestBrowser } from '../support/browser.ts';
import { oggOpus, webmOpus } from '../support/containers.ts';
import {
  amplitudeOf,
  joinPcm,
  joinSamples,
  keepPlaying,
  lastSecondOf,
  opusTone,
  pcmTone,
  peakHz,
  sampleTone,
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

describe('formats of legacy clients', () => {
  const SAMPLE_FORMATS = [
    'pcm_s16le;rate=8000;channels=1',
    'pcm_s16le;rate=11025;channels=2',
    'pcm_s16le;rate=44100;channels=1',
    'pcm_s16le;rate=48000;channels=2',
    'pcm_f32le;rate=16000;channels=1',
    'pcm_f32le;rate=22050;channels=2',
    'pcmu',
    'pcma',
  ];
  const PLAYED_MS = 30_000;
  const toneHz = (index: number) => 500 + 150 * index;

  test('each is heard by a browser, at its frequency and level', async () => {
    const browser = await openBrowser('browser', 300);
    const opus = await opusTone(toneHz(0), 0.3, PLAYED_MS);
    const cut = (stream: Buffer[]) => Buffer.concat(stream);
    const inPieces = (whole: Buffer, count: number) =>
      Array.from({ length: count }, (_, index) =>
        whole.subarray(
          Math.floor((index * whole.length) / count),
          Math.floor(((index + 1) * whole.length) / count),
        ),
      );
    const senders: [string, number, Buffer[]][] = [
      ['ogg_opus', toneHz(0), inPieces(cut(oggOpus(opus, 20)), opus.length)],
      ['webm_opus', toneHz(0), inPieces(cut(webmOpus(opus, 20)), opus.length)],
      ...SAMPLE_FORMATS.map((name, index): [string, number, Buffer[]] => {
        const format = parseAudioFormat(name) as SampleFormat;
        return [name, toneHz(index), sampleTone(format, toneHz(index), 0.3, PLAYED_MS)];
      }),
    ];
    for (const [name, hz, messages] of senders) {
      const legacy = await used.enter(name, { audio: name });
      const playing = used.keep(keepPlaying(legacy, messages));
      await vi.waitFor(async () => {
        const heard = await browser.hear(name);
        expect(peakHz(heard)).toBe(hz);
        expectLevel(heard, hz, 0.3);
      }, SETTLING);
      await playing.close();
      await legacy.close();
    }
  });

  test('a browser is heard in each, at its frequency and level', async () => {
    const listeners = await Promise.all(
      SAMPLE_FORMATS.map(async (name) => ({
        format: parseAudioFormat(name) as SampleFormat,
        legacy: await used.enter(name, { audio: name }),
      })),
    );
    await openBrowser('browser', 800);
    for (const { format, legacy } of listeners) {
      await vi.waitFor(async () => {
        const heard = await joinSamples(format, legacy.frames.slice(-50));
        expect(heard.length).toBeGreaterThan(40_000);
        expect(peakHz(heard)).toBe(800);
        expectLevel(heard, 800, SPOKEN);
      }, SETTLING);
    }
  });
});
