import { describe, expect, test } from 'vitest';
import { compress, expand } from '../../../../src/audio/mixing/time-stretch.ts';
import { seededRandom } from '../../../support/random.ts';
import { amplitudeOf, peakHz, toDb } from '../../../support/sound.ts';

const RATE_HZ = 48_000;
const BLOCK_SAMPLES = 960;

const sound = (seconds: number, at: (seconds: number) => number) =>
  Float32Array.from({ length: seconds * RATE_HZ }, (_, i) => at(i / RATE_HZ));

const tones = (seconds: number, ...frequenciesHz: number[]) =>
  sound(seconds, (t) =>
    frequenciesHz.reduce((sum, hz) => sum + 0.2 * Math.sin(2 * Math.PI * hz * t), 0),
  );

/** 100 Hz to 4 kHz in 10 s. */
const sweep = (seconds: number) =>
  sound(seconds, (t) => 0.3 * Math.sin(2 * Math.PI * (100 * t + 195 * t * t)));

function noise(seconds: number): Float32Array {
  const random = seededRandom(7);
  return sound(seconds, () => random() * 0.4 - 0.2);
}

/** Pulses of a moving pitch through three formants, in syllables, over breath. */
function speech(seconds: number, pitchHz = 120): Float32Array {
  const random = seededRandom(3);
  const formants = [resonator(500, 80), resonator(1500, 100), resonator(2500, 140)];
  let phase = 0;
  return sound(seconds, (t) => {
    phase += (pitchHz * (1 + 0.15 * Math.sin(4.4 * t) + 0.02 * Math.sin(31 * t))) / RATE_HZ;
    const pulse = phase >= 1 ? Math.max(0, 0.5 + Math.sin(2 * Math.PI * 3 * t)) : 0;
    phase %= 1;
    const source = 0.003 * (pulse + (random() - 0.5) * 0.01);
    return formants.reduce((sum, resonate) => sum + resonate(source), 0);
  });
}

function resonator(frequencyHz: number, bandwidthHz: number) {
  const radius = Math.exp((-Math.PI * bandwidthHz) / RATE_HZ);
  const turn = 2 * radius * Math.cos((2 * Math.PI * frequencyHz) / RATE_HZ);
  let [last, lastButOne] = [0, 0];
  return (input: number) => {
    const output = input + turn * last - radius * radius * lastButOne;
    [last, lastButOne] = [output, last];
    return 20 * output;
  };
}

type Change = typeof compress;
const CHANGES: [name: string, change: Change, sign: number][] = [
  ['compress', compress, -1],
  ['expand', expand, 1],
];

/** Plays `samples` block by block, every `everyBlocks` blocks at another pace. */
function stretch(samples: Float32Array, change: Change, everyBlocks: number, isUrgent = false) {
  const blocks: Float32Array[] = [];
  let changes = 0;
  for (let at = 0; at + BLOCK_SAMPLES <= samples.length; at += BLOCK_SAMPLES) {
    const block = samples.subarray(at, at + BLOCK_SAMPLES);
    const isDue = (at / BLOCK_SAMPLES) % everyBlocks === everyBlocks - 1;
    const changed = isDue ? change(block, isUrgent) : undefined;
    if (changed) changes += 1;
    blocks.push(changed ?? block);
  }
  return { heard: join(blocks), changes, dueChanges: Math.floor(blocks.length / everyBlocks) };
}

function join(blocks: Float32Array[]): Float32Array {
  const joined = new Float32Array(blocks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const block of blocks) {
    joined.set(block, at);
    at += block.length;
  }
  return joined;
}

const rms = (samples: Float32Array) =>
  Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);

const SOUNDS: [name: string, make: (seconds: number) => Float32Array][] = [
  ...[100, 440, 1000, 3000].map((hz): [string, (seconds: number) => Float32Array] => [
    `a tone of ${hz} Hz`,
    (seconds) => tones(seconds, hz),
  ]),
  ['a chord of two', (seconds) => tones(seconds, 440, 554.4)],
  ['a sweep', sweep],
  ['white noise', noise],
  ['speech', speech],
  ['silence', (seconds) => tones(seconds)],
];

describe.each(CHANGES)('%s()', (_name, change, sign) => {
  test.each(SOUNDS)('%s: 2.5 to 15 ms in length, the same at both ends', (_sound, make) => {
    for (const length of [480, 960, 1440, 2880]) {
      const samples = make(0.5).subarray(4800, 4800 + length);
      const changed = change(samples, true);
      if (!changed) continue;
      const difference = sign * (changed.length - length);
      expect(difference).toBeGreaterThanOrEqual(120);
      expect(difference).toBeLessThanOrEqual(Math.min(720, length - 240));
      expect(changed[0]).toBe(samples[0]);
      expect(changed.at(-1)).toBe(samples.at(-1));
    }
  });

  test.each(SOUNDS)('%s: as loud as it was', (_sound, make) => {
    const samples = make(4);
    const { heard, changes, dueChanges } = stretch(samples, change, 2);
    expect(changes / dueChanges).toBeGreaterThan(0.6);
    expect(Math.abs(toDb((rms(heard) + 1e-9) / (rms(samples) + 1e-9)))).toBeLessThan(0.5);
  });

  test.each([100, 440, 1000, 3000])('a tone of %i Hz keeps its frequency', (frequencyHz) => {
    const { heard, changes } = stretch(tones(2, frequencyHz), change, 2);
    expect(changes).toBe(50);
    expect(peakHz(heard.subarray(0, RATE_HZ))).toBe(frequencyHz);
    expect(toDb(amplitudeOf(heard.subarray(0, RATE_HZ), frequencyHz) / 0.2)).toBeGreaterThan(-0.3);
  });

  test('30 s of speech in which every fifth block may be cut: at another pace, by some percents', () => {
    const samples = speech(30);
    const { heard } = stretch(samples, change, 5);
    const share = (sign * (heard.length - samples.length)) / samples.length;
    expect(share).toBeGreaterThan(0.03);
    expect(share).toBeLessThan(0.15);
  });

  test('200 ms of speech too many or too few are worked off in 1 s if that is urgent', () => {
    const samples = speech(30);
    const { heard, changes, dueChanges } = stretch(samples, change, 1, true);
    expect(changes / dueChanges).toBeGreaterThan(0.95);
    expect((sign * (heard.length - samples.length)) / samples.length).toBeGreaterThan(0.2);
  });

  test('fewer than 7.5 ms: undefined', () => {
    expect(change(tones(1, 400).subarray(0, 359))).toBeUndefined();
    expect(change(tones(1, 400).subarray(0, 360))).toBeDefined();
    expect(change(new Float32Array(0))).toBeUndefined();
  });

  test('the edge of a sound, which resembles nothing near it: undefined, even if it is urgent', () => {
    const random = seededRandom(11);
    const burst = Float32Array.from({ length: 960 }, (_, i) => (i / 960) ** 4 * (random() - 0.5));
    expect(change(burst, true)).toBeUndefined();
  });

  test('does not change what it is given', () => {
    const samples = speech(1).subarray(0, BLOCK_SAMPLES);
    const copy = samples.slice();
    change(samples, true);
    expect(samples).toEqual(copy);
  });
});

test('compress() takes silence off by 15 ms a block', () => {
  expect(compress(new Float32Array(960))).toHaveLength(240);
});

test.each([0, 0.002])('compress() does not lose a consonant between breaths of %f', (breath) => {
  const random = seededRandom(13);
  const samples = Float32Array.from({ length: 960 }, () => breath * (random() - 0.5));
  samples[480] = 0.5;
  expect(compress(samples, true)).toBeUndefined();
});
