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
import { hearAs } from '../support/listening.ts';
import { SETTLING } from '../support/settling.ts';
import { amplitudeOf, keepPlaying, opusTone, sampleTone, toDb } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** The amplitude of what the microphones hear. */
const SPOKEN = 0.5;

const used = useGateway();

async function openBrowser(peer: string, microphoneHz: number): Promise<TestBrowser> {
  const browser = used.keep(await TestBrowser.openRaw(used.gateway.url, microphoneHz));
  await browser.join('a', peer, used.gateway.apiKey);
  return browser;
}

describe('every format of legacy clients', () => {
  const SAMPLE_FORMATS = FORMATS.filter((format) => format.codec !== 'opus');
  /** Number of peers that speak at once, each with its own tone. */
  const CHOIR = 10;
  const toneHz = (index: number) => 500 + 150 * (index % CHOIR);
  const AMPLITUDE = 0.09;
  const PLAYED_MS = 10_000;

  /** Returns the messages of a client in a format: an endless tone. */
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
  });

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
      // Nothing is polled meanwhile: that would keep the gateway, in the same process, from its
      // work.
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
  });
});
