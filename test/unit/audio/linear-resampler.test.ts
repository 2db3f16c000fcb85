import { expect, test } from 'vitest';
import { openLinearResampler } from '../../../src/audio/linear-resampler.ts';

const SECONDS = 4;
const TONE_HZ = 440;

/** Returns a tone that is resampled in frames of 20 ms, whose lengths differ by one where the rate requires it. */
function resampledTone(fromHz: number, toHz: number): Float32Array {
  const resample = openLinearResampler(fromHz, toHz);
  const sound = Float32Array.from({ length: SECONDS * fromHz }, (_, i) =>
    Math.sin((2 * Math.PI * TONE_HZ * i) / fromHz),
  );
  const frames = Array.from({ length: SECONDS * 50 }, (_, i) =>
    resample(sound.subarray(Math.floor((i * fromHz) / 50), Math.floor(((i + 1) * fromHz) / 50))),
  );
  return Float32Array.from(frames.flatMap((frame) => [...frame]));
}

test.each([
  [8000, 8001],
  [8000, 9400],
  [11_025, 9600],
  [12_000, 13_999],
  [44_100, 46_049],
  [48_000, 46_051],
  [48_000, 47_999],
])('from %i to %i Hz: as many samples, the same pitch and level, no click', (fromHz, toHz) => {
  const out = resampledTone(fromHz, toHz);
  expect(Math.abs(out.length - SECONDS * toHz)).toBeLessThanOrEqual(2);
  const radians = (2 * Math.PI * TONE_HZ) / toHz;
  const worst = out.reduce(
    (most, sample, i) => Math.max(most, Math.abs(sample - Math.sin(radians * i))),
    0,
  );
  // The chord between two samples is at most this far from the sine: nothing jumps, and no phase is
  // lost in 4 s.
  const chord = 1 - Math.cos((Math.PI * TONE_HZ) / fromHz);
  expect(worst).toBeLessThan(1.05 * chord + 1e-3);
  const power = out.reduce((sum, sample) => sum + sample ** 2, 0) / out.length;
  expect(Math.abs(10 * Math.log10(2 * power))).toBeLessThan(1);
});

test('frames of no samples, and of one', () => {
  const resample = openLinearResampler(8000, 16_000);
  expect([...resample(new Float32Array())]).toEqual([]);
  const out = [0, 1, 0].flatMap((sample) => [...resample(Float32Array.of(sample))]);
  expect(out).toEqual([0, 0.5, 1, 0.5]);
});
