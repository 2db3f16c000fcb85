import { describe, expect, test } from 'vitest';
import { findLateSamples, isAlike } from '../../../../src/audio/mixing/joins.ts';
import { seededRandom } from '../../../support/random.ts';

const FRAME = 960;
/** By which an encoder lags. */
const DELAY = 120;
const NOTHING = new Float32Array(0);

const soundOf = (all: Float32Array, restSamples = 0) => ({
  previous: all.subarray(0, FRAME),
  frame: all.subarray(FRAME, 2 * FRAME),
  rest: all.subarray(2 * FRAME, 2 * FRAME + restSamples),
});
const toneOf = (periodSamples: number, amplitude = 0.3) =>
  Float32Array.from(
    { length: 4 * FRAME },
    (_, i) => amplitude * Math.sin((2 * Math.PI * i) / periodSamples),
  );
/** Distance from the nearest whole number of periods. */
const offPeriod = (samples: number, period: number) =>
  Math.abs(samples - Math.round(samples / period) * period);

describe('findLateSamples()', () => {
  test.each([
    [100, 0],
    [91.4, 0],
    [300, 0],
    [480, 0],
    [100, 300],
    [91.4, 960],
    [437, 700],
  ])('a period of %f samples, of which packets went %i ahead: whole periods', (period, ahead) => {
    const late = findLateSamples(soundOf(toneOf(period), 200), ahead);
    expect(late).toBeGreaterThanOrEqual(0);
    expect(late).toBeLessThanOrEqual(504);
    expect(offPeriod(ahead + DELAY + late, period)).toBeLessThan(2.5);
  });

  test('next to silence and noise: not late', () => {
    const random = seededRandom(4);
    const noise = Float32Array.from({ length: 4 * FRAME }, () => random() - 0.5);
    expect(findLateSamples(soundOf(toneOf(100, 0.001)), 0)).toBe(0);
    expect(findLateSamples(soundOf(noise), 0)).toBe(0);
  });
});

describe('isAlike()', () => {
  test('after whole periods, and not after half of one', () => {
    const sound = { ...soundOf(toneOf(120)), rest: NOTHING };
    expect(isAlike(sound, 0)).toBe(true);
    expect(isAlike(sound, 60)).toBe(false);
    expect(isAlike(sound, 120)).toBe(true);
    expect(isAlike(soundOf(toneOf(120), 60), 0)).toBe(false);
    expect(isAlike(soundOf(toneOf(120), 60), 60)).toBe(true);
  });
});
