import type { SampleCodec } from '../../format.ts';
import { G711_STEPS, type G711Law } from '../../g711.ts';
import { frameBytesOf, openSampleReader } from '../../samples.ts';
import { g722BitsPerByte } from './g722-codes.ts';

/**
 * Estimates of the bits a byte of one message, for each message of a stream: like `readAsSamples`, but from few bytes, in some microseconds,
 * and less exact.
 */

/** Entropy of a Gaussian of deviation 1 in steps of 1, bits: log2(√(2πe)). */
const GAUSSIAN_BITS = 2.047;
const FULL_SCALE_BITS = {
  pcm_s16le: 15,
  pcm_s16be: 15,
  pcm_u8: 7,
  pcm_s24le: 23,
  pcm_s32le: 31,
  // Floats are exact to about 24 bits.
  pcm_f32le: 23,
  pcm_f64le: 23,
} as const;
/** Returns log2 of the width of each byte's step, relative to full scale. */
const stepBitsBy = (law: G711Law) =>
  Float32Array.from(G711_STEPS[law], (step) => Math.log2(step) - 15);
const STEP_BITS: Record<G711Law, Float32Array> = {
  pcmu: stepBitsBy('pcmu'),
  pcma: stepBitsBy('pcma'),
};

/** Estimate for one message; `level` is the root mean square relative to full scale, 0 if unknown. */
type QuickEstimate = { bitsPerByte: number; level: number };

/** Reads whole samples in `codec`; the first channel represents all. */
export function quickEstimate(bytes: Buffer, codec: SampleCodec, channels: number): QuickEstimate {
  if (codec === 'g722') return { bitsPerByte: g722BitsPerByte(bytes), level: 0 };
  const { left, level } = predictEvery(channels, openSampleReader(codec)(bytes));
  if (left === 0) return { bitsPerByte: 0, level };
  const scaleBits = Math.log2(left) + GAUSSIAN_BITS;
  if (codec === 'pcmu' || codec === 'pcma') {
    return { bitsPerByte: Math.max(0, scaleBits - stepBitsOf(bytes, codec)), level };
  }
  const bits = scaleBits + FULL_SCALE_BITS[codec];
  return { bitsPerByte: Math.max(0, bits) / frameBytesOf({ codec, channels: 1 }), level };
}

/** Returns the mean of log2 of the width of the steps of all bytes, relative to full scale. */
function stepBitsOf(bytes: Buffer, law: G711Law): number {
  const stepBits = STEP_BITS[law];
  let sum = 0;
  for (let i = 0; i < bytes.length; i += 1) sum += stepBits[bytes[i]!]!;
  return sum / bytes.length;
}

/** Returns the residual of linear prediction with two coefficients over every n-th sample, and the level of those samples. */
function predictEvery(every: number, samples: Float32Array): { left: number; level: number } {
  let [r0, r1, r2, last, lastButOne] = [0, 0, 0, 0, 0];
  for (let i = 0; i < samples.length; i += every) {
    const x = samples[i]!;
    r0 += x * x;
    r1 += x * last;
    r2 += x * lastButOne;
    lastButOne = last;
    last = x;
  }
  if (r0 === 0) return { left: 0, level: 0 };
  const determinant = r0 * r0 - r1 * r1;
  const isFlat = determinant <= 1e-9 * r0 * r0;
  const a = isFlat ? r1 / r0 : (r0 * r1 - r1 * r2) / determinant;
  const b = isFlat ? 0 : (r0 * r2 - r1 * r1) / determinant;
  const count = Math.ceil(samples.length / every);
  const left = Math.max(0, r0 - a * r1 - b * r2);
  return { left: Math.sqrt(left / count), level: Math.sqrt(r0 / count) };
}
