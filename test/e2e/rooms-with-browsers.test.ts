import { describe, expect, test, vi } from 'vitest';
import {
  type AudioFormat,
  formatAudioFormat,
  parseAudioFormat,
  parseDeclaredFormat,
  type SampleFormat,
} from '../../src/audio/format.ts';
import { TestBrowser } from '../support/browser.ts';
import { oggOpus, webmOpus } from '../support/containers.ts';
import { FORMATS } from '../support/corpus.ts';
import { findGlitches } from '../support/glitches.ts';
import { hearAs, powerOf } from '../support/listening.ts';
import {
  amplitudeOf,
  encodeOpus,
  joinPcm,
  keepPlaying,
  lastSecondOf,
  opusTone,
  pcmTone,
  peakHz,
  sampleMessages,
  sampleTone,
  sweep,
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

test('configure {mute} of a browser: nobody hears it, also when it resumes what it sends', async () => {
  const legacy = await used.enter('legacy', { audio_out: PCM });
  const browser = await openBrowser('browser', 800);
  const isHeard = async (sinceFrames: number) => {
    const heard = joinPcm(legacy.frames.slice(sinceFrames));
    return heard.length > 9600 && amplitudeOf(heard, 800) > SPOKEN / 4;
  };
  await vi.waitFor(async () => expect(await isHeard(-50)).toBe(true), SETTLING);
  await browser.say({ type: 'configure', mute: true });
  await browser.page.click('#mute');
  await browser.page.click('#mute');
  await new Promise((resolve) => setTimeout(resolve, 500));
  const before = legacy.frames.length;
  await new Promise((resolve) => setTimeout(resolve, 2000));
  expect(await isHeard(before)).toBe(false);
  await browser.say({ type: 'configure', mute: false });
  await vi.waitFor(async () => expect(await isHeard(-50)).toBe(true), SETTLING);
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

describe('every format of legacy clients', () => {
  const SAMPLE_FORMATS = FORMATS.filter((format) => format.codec !== 'opus');
  /** So many speak at once, each his own tone. */
  const CHOIR = 10;
  const toneHz = (index: number) => 500 + 150 * (index % CHOIR);
  const AMPLITUDE = 0.09;
  const PLAYED_MS = 10_000;

  /** What a client sends in a format: a tone that goes on and on. */
  async function messagesOf(name: string, hz: number): Promise<Buffer[]> {
    const format = parseDeclaredFormat(name);
    if (format !== 'auto' && format.codec in CONTAINERS) {
      const packets = await opusTone(hz, AMPLITUDE, PLAYED_MS * 3);
      const stream = Buffer.concat(CONTAINERS[format.codec as keyof typeof CONTAINERS](packets));
      const cut = (k: number) => Math.floor((k * stream.length) / packets.length);
      return packets.map((_, k) => stream.subarray(cut(k), cut(k + 1)));
    }
    return name === 'opus'
      ? opusTone(hz, AMPLITUDE, PLAYED_MS)
      : sampleTone(parseAudioFormat(name) as SampleFormat, hz, AMPLITUDE, PLAYED_MS);
  }
  const CONTAINERS = {
    ogg_opus: (packets: Buffer[]) => oggOpus(packets, 20),
    webm_opus: (packets: Buffer[]) => webmOpus(packets, 20),
  };

  test('is heard by a browser, at its frequency and level, and without a click', async () => {
    const browser = await openBrowser('browser', 300);
    const names = [...FORMATS.map(formatAudioFormat), ...Object.keys(CONTAINERS)];
    for (let from = 0; from < names.length; from += CHOIR) {
      const choir = names.slice(from, from + CHOIR);
      const singers = await Promise.all(
        choir.map(async (name, index) => {
          const legacy = await used.enter(name, { audio: name });
          return { legacy, messages: await messagesOf(name, toneHz(index)) };
        }),
      );
      const playing = singers.map(({ legacy, messages }) => keepPlaying(legacy, messages));
      await vi.waitFor(async () => {
        const heard = await browser.hear(...choir);
        const levels = choir.map((name, index) => {
          const db = toDb(amplitudeOf(heard, toneHz(index)) / AMPLITUDE);
          return Math.abs(db) < 1.5 ? name : `${name}: ${db.toFixed(1)} dB`;
        });
        expect(levels).toEqual(choir);
        expect(findGlitches(heard)).toEqual([]);
      }, SETTLING);
      await Promise.all(playing.map((one) => one.close()));
      await Promise.all(singers.map(({ legacy }) => legacy.close()));
    }
  }, 120_000);

  test('hears a browser, at its frequency and level, and without a click', async () => {
    const formats: AudioFormat[] = [{ codec: 'opus' }, ...SAMPLE_FORMATS];
    const listeners = await Promise.all(
      formats.map(async (format) => {
        const name = formatAudioFormat(format);
        return { name, format, legacy: await used.enter(name, { audio: name }) };
      }),
    );
    await openBrowser('browser', 800);
    const heardBy = async (format: AudioFormat, frames: Buffer[]) => {
      const heard = (await hearAs(format, frames)).subarray(-48_000);
      const db = toDb(amplitudeOf(heard, 800) / SPOKEN);
      const isRight = heard.length === 48_000 && Math.abs(db) < 1.5;
      return { level: isRight ? 'right' : db, glitches: findGlitches(heard) };
    };
    await vi.waitFor(async () => {
      // Nobody looks meanwhile: that would keep the gateway, in the same process, from its work.
      await new Promise((resolve) => setTimeout(resolve, 3000));
      const taken = listeners.map(({ legacy, ...rest }) => ({
        ...rest,
        frames: legacy.frames.slice(-75),
      }));
      const heard = [];
      for (const { name, format, frames } of taken) {
        heard.push({ name, ...(await heardBy(format, frames)) });
      }
      expect(heard).toEqual(taken.map(({ name }) => ({ name, level: 'right', glitches: [] })));
    }, SETTLING);
  }, 120_000);
});

describe('a sweep from 300 to 3000 Hz', () => {
  const RANGE: [number, number] = [300, 3000];
  const SWEEP_MS = 4000;
  /** There and back, so that it can go on and on: it turns at zero, where its mirror image follows on. */
  const thereAndBack = (rateHz: number) => {
    const [first, ...rest] = sweep(RANGE, SPOKEN, SWEEP_MS, rateHz);
    const back = rest.map((sample) => -sample).toReversed();
    return Float32Array.from([first!, ...rest, 0, ...back]);
  };

  /** Every glitch, and every 100 ms that are not within 1.5 dB of what was said. */
  function faultsIn(heard: Float32Array): unknown[] {
    const tenths = Array.from({ length: Math.floor(heard.length / 4800) }, (_, i) =>
      heard.subarray(i * 4800, (i + 1) * 4800),
    );
    const levelsDb = tenths.map((tenth) => 10 * Math.log10((2 * powerOf(tenth)) / SPOKEN ** 2));
    const isShort = heard.length < 30_000;
    return [
      ...(isShort ? ['too short'] : []),
      ...levelsDb.filter((db) => Math.abs(db) > 1.5),
      ...findGlitches(heard),
    ];
  }

  test.each(['opus', PCM, 'pcm_f32le;rate=44100;channels=2', 'pcm_s16le;rate=16000;channels=1'])(
    'sent as %s: the browser hears it',
    async (name) => {
      const format = parseAudioFormat(name);
      const browser = await openBrowser('browser', 200);
      const legacy = await used.enter('legacy', { audio: name });
      const messages =
        format.codec === 'opus'
          ? await encodeOpus(thereAndBack(48_000))
          : sampleMessages(format, thereAndBack(format.rateHz));
      used.keep(keepPlaying(legacy, messages));
      await vi.waitFor(async () => {
        expect(faultsIn(await browser.hear('legacy'))).toEqual([]);
      }, SETTLING);
    },
  );

  test('said into a browser: legacy clients hear it', async () => {
    const formats = [
      'opus',
      PCM,
      'pcm_f32le;rate=44100;channels=2',
      'pcm_s16le;rate=16000;channels=1',
    ];
    const listeners = await Promise.all(
      formats.map(async (name) => ({
        format: parseAudioFormat(name),
        legacy: await used.enter(name, { audio: name }),
      })),
    );
    const microphone = sampleMessages(parseAudioFormat(PCM) as SampleFormat, thereAndBack(48_000));
    const browser = used.keep(await TestBrowser.open(`${used.gateway.url}/?raw`, microphone));
    await browser.join('a', 'browser', used.gateway.apiKey);
    for (const { format, legacy } of listeners) {
      await vi.waitFor(async () => {
        const heard = await hearAs(format, legacy.frames.slice(-75));
        expect(faultsIn(heard.subarray(-40_000))).toEqual([]);
      }, SETTLING);
    }
  });
});
