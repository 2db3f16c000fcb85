import { Application, Signal } from 'libopus-wasm';
import { beforeAll, describe, expect, test } from 'vitest';
import type { EncoderLibrary } from '../../../../src/audio/libopus/libopus.ts';
import { loadNativeLibopus } from '../../../../src/audio/libopus/native.ts';
import { loadWasmLibopus } from '../../../../src/audio/libopus/wasm.ts';
import { loadOpusCodec } from '../../../../src/audio/opus-codec.ts';
import { FRAME_SAMPLES } from '../../../../src/audio/format.ts';
import { findGlitches } from '../../../support/glitches.ts';
import { amplitudeOf, encodeOpus, energyOf, sweep, toDb, tone } from '../../../support/sound.ts';

const OPTIONS = { rateHz: 48_000, bitrateBps: 32_000, complexity: 5 } as const;
const TONE_HZ = 700;
const LOST = 20;

type Encoder = Awaited<ReturnType<EncoderLibrary['openEncoder']>>;
type Decoder = Awaited<ReturnType<Awaited<ReturnType<typeof loadWasmLibopus>>['openDecoder']>>;

const openDecoder = async () => (await loadWasmLibopus()).openDecoder();

const ways: [string, () => Promise<EncoderLibrary>][] = [
  ['the machine’s own', loadNativeLibopus],
  ['WebAssembly', loadWasmLibopus],
];

/** Encodes and decodes; what `standIn` makes takes the place of the packet at {@link LOST}. */
async function through(
  library: EncoderLibrary,
  sound: Float32Array,
  standIn?: (decoder: Decoder) => Float32Array,
): Promise<Float32Array> {
  const [encoder, decoder] = [await library.openEncoder(OPTIONS), await openDecoder()];
  const frames: Float32Array[] = [];
  for (let at = 0; at + FRAME_SAMPLES <= sound.length; at += FRAME_SAMPLES) {
    const packet = encoder.encode(sound.subarray(at, at + FRAME_SAMPLES));
    const isLost = standIn && frames.length === LOST;
    frames.push(isLost ? standIn(decoder) : decoder.decode(packet));
  }
  encoder.close();
  decoder.close();
  return Float32Array.from(frames.flatMap((frame) => [...frame]));
}

describe.each(ways)('an encoder of libopus: %s', (_way, load) => {
  let library: EncoderLibrary;
  beforeAll(async () => {
    library = await load();
  });

  test('encoded and decoded sound is the same sound', async () => {
    const heard = await through(library, tone(TONE_HZ, 0.25, 1000));
    expect(heard).toHaveLength(48_000);
    expect(Math.abs(toDb(amplitudeOf(heard.subarray(4800), TONE_HZ) / 0.25))).toBeLessThan(0.5);
    const swept = await through(library, sweep([300, 3000], 0.25, 1000));
    expect(findGlitches(swept.subarray(960))).toEqual([]);
  });

  test('setComplexity() and setPrediction() change what comes out', async () => {
    const frame = tone(TONE_HZ, 0.25, 20).map((sample) => sample + 0.1 * Math.random());
    const encode = async (change?: (encoder: Encoder) => void) => {
      const encoder = await library.openEncoder(OPTIONS);
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

  test('a frame of another length is refused, and breaks nothing', async () => {
    const encoder = await library.openEncoder(OPTIONS);
    expect(() => encoder.encode(new Float32Array(959))).toThrow(/960/);
    expect(encoder.encode(new Float32Array(960)).length).toBeGreaterThan(0);
    encoder.close();
  });

  test('after close() it throws, and a second close() does nothing', async () => {
    const encoder = await library.openEncoder(OPTIONS);
    encoder.close();
    encoder.close();
    expect(() => encoder.encode(new Float32Array(960))).toThrow(/closed|freed/);
    expect(() => encoder.setComplexity(1)).toThrow(/closed|freed/);
  });
});

describe('a decoder of libopus', () => {
  test('conceal() goes on with the sound', async () => {
    const library = await loadWasmLibopus();
    const heard = await through(library, tone(TONE_HZ, 0.25, 1000), (decoder) =>
      decoder.conceal(960),
    );
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
    const lost = 60;
    const errorOf = async (standIn: (decoder: Decoder) => Float32Array) => {
      const [lossy, whole] = [await openDecoder(), await openDecoder()];
      for (const packet of packets.slice(0, lost)) {
        lossy.decode(packet);
        whole.decode(packet);
      }
      const right = whole.decode(packets[lost]!);
      const heard = standIn(lossy);
      lossy.close();
      whole.close();
      return energyOf(right.map((sample, i) => sample - heard[i]!)) / energyOf(right);
    };
    const recovered = await errorOf((decoder) => decoder.recover(packets[lost + 1]!, 960));
    const concealed = await errorOf((decoder) => decoder.conceal(960));
    expect(recovered).toBeLessThan(0.7 * concealed);
  });

  test('bytes that are no packet are refused, and break nothing', async () => {
    const decoder = await openDecoder();
    expect(() => decoder.decode(new Uint8Array(0))).toThrow(/packet/i);
    expect(() => decoder.decode(Uint8Array.of(0xff, 0xff, 0xff))).toThrow(/corrupted/i);
    const [packet] = await encodeOpus(tone(TONE_HZ, 0.25, 20));
    expect(decoder.decode(packet!)).toHaveLength(960);
    decoder.close();
  });
});

test('loadOpusCodec() takes the machine’s own, and WebAssembly where there is none', async () => {
  const settings = { bitrateBps: 32_000, complexity: 5 };
  const found = await loadOpusCodec(settings);
  expect(found.encoders.name).toMatch(/^libopus \d/);
  expect(found.encoders.fault).toBeUndefined();
  const missing = await loadOpusCodec(settings, () => loadNativeLibopus('libopus.so.999'));
  expect(missing.encoders.name).toBe('WebAssembly');
  expect(String(missing.encoders.fault)).toMatch(/cannot open/);
  const encoder = await missing.createEncoder(48_000);
  expect(encoder.encode(new Float32Array(960)).length).toBeGreaterThan(0);
  encoder.close();
});
