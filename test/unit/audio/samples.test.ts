import { describe, expect, test } from 'vitest';
import { audioLevelOf } from '../../../src/audio/level.ts';
import { Limiter } from '../../../src/audio/mixing/limiter.ts';
import { encodeG711, G711_VALUES } from '../../../src/audio/g711.ts';
import { downmix, readSamples, upmix, writeSamples } from '../../../src/audio/samples.ts';
import { seededRandom } from '../../support/random.ts';

const sine = (amplitude: number, samples = 4800, frequencyHz = 1000) =>
  Float32Array.from(
    { length: samples },
    (_, i) => amplitude * Math.sin((2 * Math.PI * frequencyHz * i) / 48_000),
  );

describe('audioLevelOf() (RFC 6464)', () => {
  test.each([
    ['silence', new Float32Array(960), 127],
    ['a full-scale square wave', new Float32Array(960).fill(1), 0],
    ['a full-scale sine', sine(1), 3],
    ['a sine 20 dB below', sine(0.1), 23],
    ['less than the quietest that can be said', new Float32Array(960).fill(1e-9), 127],
    ['more than full scale', new Float32Array(960).fill(2), 0],
  ])('of %s', (_name, samples, level) => {
    expect(audioLevelOf(samples)).toBe(level);
  });
});

describe('samples', () => {
  test('writeSamples() saturates instead of wrapping', () => {
    const bytes = writeSamples(Float32Array.of(1.7, -1.7, 1, -1, 0), 'pcm_s16le');
    expect([0, 2, 4, 6, 8].map((at) => bytes.readInt16LE(at))).toEqual([
      32_767, -32_768, 32_767, -32_768, 0,
    ]);
  });

  test('readSamples() then writeSamples() gives back every value', () => {
    const bytes = Buffer.alloc(65_536 * 2);
    for (let i = 0; i < 65_536; i += 1) bytes.writeInt16LE(i - 32_768, i * 2);
    expect(writeSamples(readSamples(bytes, 'pcm_s16le'), 'pcm_s16le').equals(bytes)).toBe(true);
  });
});

describe('16-bit integers, byte for byte', () => {
  const random = seededRandom(7);
  const ODD_VALUES = [NaN, Infinity, -Infinity, -0, 1, -1, 0.5 / 2 ** 15, -0.5 / 2 ** 15, 1.5, -3];
  const lengths = [0, 1, 2, 319, 960, 5000];

  test.each(lengths)('writeSamples() of %i samples', (length) => {
    const samples = Float32Array.from({ length }, (_, i) =>
      i % 5 === 0 ? ODD_VALUES[(i / 5) % ODD_VALUES.length]! : random() * 2.4 - 1.2,
    );
    const expected = Buffer.alloc(length * 2);
    for (const [i, sample] of samples.entries()) {
      const value = Math.round(sample * 2 ** 15) || 0;
      expected.writeInt16LE(Math.min(32_767, Math.max(-32_768, value)), i * 2);
    }
    expect(writeSamples(samples, 'pcm_s16le')).toEqual(expected);
  });

  test.each(lengths.flatMap((length) => [0, 1, 2, 3].map((offset) => [length, offset] as const)))(
    'readSamples() of %i samples, %i bytes into a buffer',
    (length, offset) => {
      const whole = Buffer.alloc(length * 2 + 8).map(() => random() * 256);
      const bytes = Buffer.from(whole.buffer, offset, length * 2);
      const expected = Float32Array.from({ length }, (_, i) => bytes.readInt16LE(i * 2) / 2 ** 15);
      expect(readSamples(bytes, 'pcm_s16le')).toEqual(expected);
    },
  );
});

describe('integers of other widths', () => {
  test.each([
    ['pcm_s16be', '7fff 8000 4000 0000'],
    ['pcm_u8', 'ff 00 c0 80'],
    ['pcm_s24le', 'ffff7f 000080 000040 000000'],
    ['pcm_s32le', 'ffffff7f 00000080 00000040 00000000'],
  ] as const)('%s: full scale either way, half, and nothing', (codec, hex) => {
    const bytes = Buffer.from(hex.replaceAll(' ', ''), 'hex');
    const [most, least, half, nothing] = readSamples(bytes, codec);
    expect(most).toBeGreaterThan(0.99);
    expect([least, half, nothing]).toEqual([-1, 0.5, 0]);
    expect(writeSamples(Float32Array.of(1.7, -1.7, 0.5, 0), codec)).toEqual(bytes);
  });

  test.each([
    ['pcm_s16be', 2 ** -16],
    ['pcm_u8', 2 ** -8],
    ['pcm_s24le', 2 ** -24],
    ['pcm_s32le', 2 ** -24],
  ] as const)('%s: samples come back within half a step', (codec, halfStep) => {
    const samples = sine(0.9, 1000);
    const errors = readSamples(writeSamples(samples, codec), codec).map((sample, i) =>
      Math.abs(sample - samples[i]!),
    );
    expect(Math.max(...errors)).toBeLessThanOrEqual(halfStep);
  });
});

describe('32-bit floats', () => {
  test('readSamples() saturates, and takes what is no number for silence', () => {
    const bytes = Buffer.alloc(20);
    [0.5, 7, -7, NaN, -Infinity].forEach((value, i) => bytes.writeFloatLE(value, i * 4));
    expect([...readSamples(bytes, 'pcm_f32le')]).toEqual([0.5, 1, -1, 0, -1]);
  });

  test('writeSamples() then readSamples() gives back the samples', () => {
    const samples = sine(0.9, 100);
    expect(readSamples(writeSamples(samples, 'pcm_f32le'), 'pcm_f32le')).toEqual(samples);
  });
});

describe('G.711', () => {
  test.each([
    ['pcmu', 0xff, 0],
    ['pcmu', 0x80, 32_124],
    ['pcmu', 0x00, -32_124],
    ['pcmu', 0xfe, 8],
    ['pcma', 0xd5, 8],
    ['pcma', 0x55, -8],
    ['pcma', 0xaa, 32_256],
    ['pcma', 0x2a, -32_256],
  ] as const)('%s 0x%s stands for %i', (law, byte, value) => {
    expect(G711_VALUES[law][byte]).toBe(value);
  });

  test.each(['pcmu', 'pcma'] as const)('%s: every byte comes back from its value', (law) => {
    for (let byte = 0; byte < 256; byte += 1) {
      const value = G711_VALUES[law][byte]!;
      expect(G711_VALUES[law][encodeG711(value, law)]).toBe(value);
    }
  });

  test.each(['pcmu', 'pcma'] as const)('%s: every value comes out within a step', (law) => {
    for (let value = -32_768; value <= 32_767; value += 1) {
      const error = Math.abs(G711_VALUES[law][encodeG711(value, law)]! - value);
      expect(error).toBeLessThanOrEqual(Math.max(8, Math.abs(value) / 16));
    }
  });
});

test('upmix() then downmix() gives back the samples', () => {
  const samples = sine(0.5, 100);
  expect(upmix(samples, 2)).toHaveLength(200);
  expect(downmix(upmix(samples, 2), 2)).toEqual(samples);
});

describe('Limiter', () => {
  test('process() leaves a frame within full scale untouched', () => {
    const frame = sine(0.9, 960);
    const before = frame.slice();
    new Limiter().process(frame);
    expect(frame).toEqual(before);
  });

  test('process() keeps every sample of a loud sum within full scale', () => {
    const limiter = new Limiter();
    for (let i = 0; i < 20; i += 1) {
      const frame = sine(3, 960);
      limiter.process(frame);
      expect(Math.max(...frame.map(Math.abs))).toBeLessThanOrEqual(1);
    }
  });

  test('process() does not clip a steady loud sum once the gain has settled: two tones at 0.7 keep 20 dB SNR', () => {
    const limiter = new Limiter();
    const low = sine(0.7, 48_000, 440);
    const high = sine(0.7, 48_000, 1500);
    const out = new Float32Array(48_000);
    for (let at = 0; at < out.length; at += 960) {
      const frame = low.slice(at, at + 960).map((sample, i) => sample + high[at + i]!);
      limiter.process(frame);
      out.set(frame, at);
    }
    expect(snrDb(out.subarray(24_000), [440, 1500])).toBeGreaterThan(20);
  });

  test('process() gives the gain back after a loud spell, slowly', () => {
    const limiter = new Limiter();
    limiter.process(sine(2, 960));
    // The gain of -6 dB takes half a second, 26 frames, to recover.
    for (let i = 0; i < 24; i += 1) {
      const frame = sine(0.5, 960);
      limiter.process(frame);
      expect(Math.max(...frame)).toBeLessThan(0.25 + (0.25 * (i + 2)) / 26);
    }
    for (let i = 0; i < 26; i += 1) limiter.process(sine(0.5, 960));
    const frame = sine(0.5, 960);
    const before = frame.slice();
    limiter.process(frame);
    expect(frame).toEqual(before);
  });
});

/** Returns the ratio of the given tones to everything else, dB. */
function snrDb(samples: Float32Array, tonesHz: number[]): number {
  const rest = Float64Array.from(samples);
  let tones = 0;
  for (const toneHz of tonesHz) {
    let re = 0;
    let im = 0;
    const angle = (i: number) => (2 * Math.PI * toneHz * i) / 48_000;
    for (let i = 0; i < rest.length; i += 1) {
      re += (2 / rest.length) * samples[i]! * Math.cos(angle(i));
      im += (2 / rest.length) * samples[i]! * Math.sin(angle(i));
    }
    for (let i = 0; i < rest.length; i += 1) {
      rest[i]! -= re * Math.cos(angle(i)) + im * Math.sin(angle(i));
    }
    tones += (re * re + im * im) / 2;
  }
  const noise = rest.reduce((sum, value) => sum + value * value, 0) / rest.length;
  return 10 * Math.log10(tones / noise);
}
