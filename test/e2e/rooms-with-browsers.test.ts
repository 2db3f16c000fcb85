import { describe, expect, test, vi } from 'vitest';
import { parseAudioFormat, type SampleFormat } from '../../src/audio/format.ts';
import { TestBrowser } from '../support/browser.ts';
import { findGlitches } from '../support/glitches.ts';
import { hearAs, powerOf } from '../support/listening.ts';
import { SETTLING } from '../support/settling.ts';
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
  sweep,
  toDb,
} from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

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
  await legacy.until('two seconds of sound', () => legacy.frames.length > 100 || undefined);
  await vi.waitFor(async () => {
    const heard = await lastSecondOf(legacy);
    expect(peakHz(heard)).toBe(800);
    expectLevel(heard, 800, SPOKEN);
  }, SETTLING);
});

test('a browser is given everybody who speaks, once it is connected', async () => {
  const OPUS = { mimeType: 'audio/opus', clockRate: 48_000, channels: 2, payloadType: 111 };
  const names = ['b', 'c', 'd', 'e', 'f', 'g', 'h'];
  for (const peer of names) {
    const speaker = await used.connect({ peer });
    const { webrtc } = await speaker.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    const transport_id = webrtc?.send_transport.id;
    const rtp_parameters = { codecs: [OPUS], encodings: [{ ssrc: 1 }] };
    await speaker.ask({ type: 'produce', kind: 'audio', transport_id, rtp_parameters }, 'produced');
  }
  const browser = await openBrowser('browser', 800);
  await vi.waitFor(async () => {
    const heard = await browser.page.evaluate(() => {
      const state = window.partyline?.state;
      const peers = state?.name === 'in_room' ? [...state.peers.values()] : [];
      return peers.filter(({ track }) => track).map(({ peer }) => peer);
    });
    expect(heard.toSorted()).toEqual(names);
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
  // With an id: the page's client takes an answer to nothing for an operator's mute, and would end
  // it.
  await browser.say({ type: 'configure', mute: true, id: 'test' });
  await browser.page.click('#mute');
  await browser.page.click('#mute');
  // Sound that was on its way is heard first.
  await vi.waitFor(async () => {
    const before = legacy.frames.length;
    await new Promise((resolve) => setTimeout(resolve, 2000));
    expect(await isHeard(before)).toBe(false);
  }, SETTLING);
  await browser.say({ type: 'configure', mute: false, id: 'test' });
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

  // All formats are heard by a browser in test/long/formats-with-browsers.test.ts.
  test.each(['opus', 'pcm_f32le;rate=44100;channels=2'])(
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
    const formats = ['opus', 'pcm_f32le;rate=44100;channels=2'];
    const listeners = await Promise.all(
      formats.map(async (name) => ({
        format: parseAudioFormat(name),
        legacy: await used.enter(name, { audio: name }),
      })),
    );
    const microphone = sampleMessages(parseAudioFormat(PCM) as SampleFormat, thereAndBack(48_000));
    const browser = used.keep(
      await TestBrowser.open(`${used.gateway.url}/?raw&transports=webrtc`, microphone),
    );
    await browser.join('a', 'browser', used.gateway.apiKey);
    for (const { format, legacy } of listeners) {
      await vi.waitFor(async () => {
        const heard = await hearAs(format, legacy.frames.slice(-75));
        expect(faultsIn(heard.subarray(-40_000))).toEqual([]);
      }, SETTLING);
    }
  });
});
