import { Application, Signal } from 'libopus-wasm';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Libopus } from '../../src/audio/libopus/libopus.ts';
import { loadNativeLibopus } from '../../src/audio/libopus/native.ts';
import { loadWasmLibopus } from '../../src/audio/libopus/wasm.ts';
import { loadOpusCodec } from '../../src/audio/opus-codec.ts';
import { FRAME_SAMPLES } from '../../src/audio/format.ts';
import { findGlitches } from '../support/glitches.ts';
import { amplitudeOf, encodeOpus, sweep, toDb, tone } from '../support/sound.ts';

const OPTIONS = { rateHz: 48_000, bitrateBps: 32_000, complexity: 5 } as const;
const TONE_HZ = 700;
const LOST = 20;

const ways: [string, () => Promise<Libopus>][] = [
  ['the machine’s own', loadNativeLibopus],
  ['WebAssembly', loadWasmLibopus],
];

describe.each(ways)('libopus: %s', (_way, load) => {
  let libopus: Libopus;
  beforeAll(async () => {
    libopus = await load();
  });

  /** Encodes and decodes a second; what `disturb` does to a decoder stands for the packet at {@link LOST}. */
  const through = async (
    sound: Float32Array,
    disturb?: (decoder: Awaited<ReturnType<Libopus['openDecoder']>>) => Float32Array,
  ) => {
    const [encoder, decoder] = [await libopus.openEncoder(OPTIONS), await libopus.openDecoder()];
    const frames: Float32Array[] = [];
    for (let at = 0; at + FRAME_SAMPLES <= sound.length; at += FRAME_SAMPLES) {
      const packet = encoder.encode(sound.subarray(at, at + FRAME_SAMPLES));
      const isLost = disturb && frames.length === LOST;
      frames.push(isLost ? disturb(decoder) : decoder.decode(packet));
    }
    encoder.close();
    decoder.close();
    return Float32Array.from(frames.flatMap((frame) => [...frame]));
  };

  test('what is encoded and decoded is the same sound', async () => {
    const heard = await through(tone(TONE_HZ, 0.25, 1000));
    expect(heard).toHaveLength(48_000);
    expect(Math.abs(toDb(amplitudeOf(heard.subarray(4800), TONE_HZ) / 0.25))).toBeLessThan(0.5);
    const swept = await through(sweep([300, 3000], 0.25, 1000));
    expect(findGlitches(swept.subarray(960))).toEqual([]);
  });

  test('conceal() goes on with the sound', async () => {
    const heard = await through(tone(TONE_HZ, 0.25, 1000), (decoder) => decoder.conceal(960));
    expect(heard).toHaveLength(48_000);
    const madeUp = heard.subarray(LOST * 960, (LOST + 1) * 960);
    expect(Math.abs(toDb(amplitudeOf(madeUp, TONE_HZ) / 0.25))).toBeLessThan(3);
  });

  test('recover() reads a lost packet from the copy in the next', async () => {
    // A word begins in the packet that gets lost: nobody could guess it from what came before.
    const speech = Float32Array.from([...tone(220, 0.03, 1200), ...tone(330, 0.3, 400)]);
    const packets = await encodeOpus(speech, 20, {
      application: Application.Voip,
      fec: true,
      packetLossPercent: 30,
      bitrate: 24_000,
      signal: Signal.Voice,
    });
    const energyOf = (sound: Float32Array) => sound.reduce((sum, sample) => sum + sample ** 2, 0);
    const errors = await Promise.all(
      ['recover', 'conceal'].map(async (how) => {
        const [lossy, whole] = [await libopus.openDecoder(), await libopus.openDecoder()];
        const lost = 60;
        for (const packet of packets.slice(0, lost)) {
          lossy.decode(packet);
          whole.decode(packet);
        }
        const right = whole.decode(packets[lost]!);
        const next = packets[lost + 1]!;
        const heard = how === 'recover' ? lossy.recover(next, 960) : lossy.conceal(960);
        lossy.close();
        whole.close();
        expect(heard).toHaveLength(960);
        return energyOf(right.map((sample, i) => sample - heard[i]!)) / energyOf(right);
      }),
    );

    expect(errors[0]).toBeLessThan(0.7 * errors[1]!);
  });

  test('setComplexity() and setPrediction() change what comes out', async () => {
    const frame = tone(TONE_HZ, 0.25, 20).map((sample) => sample + 0.1 * Math.random());
    const encode = async (
      change?: (encoder: Awaited<ReturnType<Libopus['openEncoder']>>) => void,
    ) => {
      const encoder = await libopus.openEncoder(OPTIONS);
      encoder.encode(frame);
      change?.(encoder);
      const packet = encoder.encode(frame);
      encoder.close();
      return packet;
    };
    const usual = await encode();
    expect(await encode()).toEqual(usual);
    expect(await encode((encoder) => encoder.setComplexity(0))).not.toEqual(usual);
    expect(await encode((encoder) => encoder.setPrediction(false))).not.toEqual(usual);
  });

  test('what cannot be is refused, and breaks nothing', async () => {
    const [encoder, decoder] = [await libopus.openEncoder(OPTIONS), await libopus.openDecoder()];
    expect(() => encoder.encode(new Float32Array(959))).toThrow(/960/);
    expect(() => decoder.decode(new Uint8Array(0))).toThrow(/packet/i);
    expect(() => decoder.decode(Uint8Array.of(0xff, 0xff, 0xff))).toThrow(/corrupted/i);
    expect(() => decoder.conceal(961)).toThrow(/./);
    expect(() => decoder.conceal(1_000_000)).toThrow(/./);
    expect(decoder.decode(encoder.encode(new Float32Array(960)))).toHaveLength(960);
    encoder.close();
    decoder.close();
  });

  test('after close() it throws, and a second close() does nothing', async () => {
    const [encoder, decoder] = [await libopus.openEncoder(OPTIONS), await libopus.openDecoder()];
    for (const part of [encoder, decoder, encoder, decoder]) part.close();
    expect(() => encoder.encode(new Float32Array(960))).toThrow(/closed|freed/);
    expect(() => decoder.decode(Uint8Array.of(0xf8))).toThrow(/closed|freed/);
  });
});

test('loadOpusCodec() takes the machine’s own, and WebAssembly where there is none', async () => {
  const settings = { bitrateBps: 32_000, complexity: 5 };
  const found = await loadOpusCodec(settings);
  expect(found.description).toMatch(/^libopus \d/);
  const missing = await loadOpusCodec(settings, () => loadNativeLibopus('libopus.so.999'));
  expect(missing.description).toMatch(/^WebAssembly, .*cannot open/);
  const encoder = await missing.createEncoder(48_000);
  expect(encoder.encode(new Float32Array(960)).length).toBeGreaterThan(0);
  encoder.close();
});
