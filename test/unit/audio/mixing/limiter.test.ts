import { expect, test } from 'vitest';
import { Limiter } from '../../../../src/audio/mixing/limiter.ts';

const FRAME_SAMPLES = 960;
const FRAME_MS = 20;

/** Returns what a limiter makes of frames of a constant value each. */
const limited = (limiter: Limiter, values: readonly number[]): Float32Array[] =>
  values.map((value) => {
    const frame = new Float32Array(FRAME_SAMPLES).fill(value);
    limiter.process(frame);
    return frame;
  });

test('process() of a quiet frame: left untouched', () => {
  const [frame] = limited(new Limiter(), [0.9]);
  expect(frame).toEqual(new Float32Array(FRAME_SAMPLES).fill(0.9));
});

test('process() of a sum beyond full scale: never beyond it, and attenuated from the first 5 ms on', () => {
  const [first, second] = limited(new Limiter(), [2, 2]);
  expect(Math.max(...first!)).toBeLessThanOrEqual(1);
  expect(first!.at(-1)).toBeCloseTo(0.97);
  expect([second![0], second!.at(-1)]).toEqual([expect.closeTo(0.97), expect.closeTo(0.97)]);
});

test('process() after a loud sum: the gain recovers over half a second, without a jump', () => {
  const limiter = new Limiter();
  limited(limiter, [2, 2]);
  const frames = limited(limiter, Array<number>(40).fill(0.5));
  const gains = frames.map((frame) => frame.at(-1)! / 0.5);
  const recovered = gains.findIndex((gain) => gain === 1);
  expect(recovered * FRAME_MS).toBeGreaterThan(400);
  expect(recovered * FRAME_MS).toBeLessThan(600);
  const steps = gains.map((gain, i) => gain - (gains[i - 1] ?? 0.485));
  expect(Math.max(...steps)).toBeLessThan(0.03);
});
