import type { SampleCodec } from '../../format.ts';
import { G711_STEPS, G711_VALUES } from '../../g711.ts';
import { WindowSet } from './window-set.ts';

/**
 * How many bits a byte of a message holds if it is sound of a given kind. What a coder that knows the kind could not
 * predict is what remains: for the right kind less than 8, for a wrong one about 8 or more, because sound read wrongly is
 * noise. The reading that explains the bytes in the fewest bits is the right one (minimum description length).
 */
export type Reading = { codec: SampleCodec; channels: number; bitsPerByte: number };

/** More bytes than this do not make the answer any surer. */
const MAX_BYTES = 8192;
/** Floats are exact to about 24 bits. */
const FLOAT_FULL_SCALE = 2 ** 23;
/** Of a tone that a computer makes so much of its power is left by arithmetic alone. */
const LEAST_UNPREDICTED = 1e-9;
/** A second channel must save so many bits a sample to be believed, and so many in all. */
const STEREO_GAIN_BITS = 0.15;
const STEREO_TOTAL_GAIN_BITS = 60;
/** Two channels that have nothing to do with each other: a sample is like the last but one, and unlike the last. */
const INDEPENDENT_RATIO = 0.25;
const INDEPENDENT_CORRELATION = 0.3;

/** Length of the windows of bytes that are compared with earlier ones: what is repeated over fewer bytes counts as new. */
const REPEATED_BYTES = 32;

/**
 * Counts the bytes that do not belong to a repetition of an earlier stretch. Of a tone whose period is a whole number of
 * samples only the first period is new.
 */
export function novelBytesOf(bytes: Buffer): number {
  const seen = new WindowSet(bytes.length);
  let novel = Math.min(bytes.length, REPEATED_BYTES - 1);
  let hash = 0;
  for (let i = 0; i < bytes.length; i += 1) {
    // A rolling hash of the last 32 bytes: what older bytes added has been shifted out.
    hash = (Math.imul(hash, 2) + BYTE_HASHES[bytes[i]!]!) | 0;
    if (i >= REPEATED_BYTES - 1 && seen.add(hash)) novel += 1;
  }
  return novel;
}

/** A random number for each byte, drawn at start, so that nobody can choose bytes whose hashes collide. */
const BYTE_HASHES = crypto.getRandomValues(new Int32Array(256));

/**
 * Reads bytes that begin with a whole sample as each kind of samples.
 * @returns the readings that are possible at all, the shortest first
 */
export function readAsSamples(bytes: Buffer): Reading[] {
  const part = bytes.subarray(0, MAX_BYTES);
  const novelShare = novelBytesOf(part) / part.length;
  const floats = readFloat32(part, novelShare);
  const readings = [
    readInt16(part, novelShare, floats !== undefined),
    floats,
    readG711(part, 'pcmu'),
    readG711(part, 'pcma'),
  ];
  return readings
    .filter((reading) => reading !== undefined)
    .toSorted((a, b) => a.bitsPerByte - b.bitsPerByte);
}

function readInt16(bytes: Buffer, novelShare: number, mayBeFloats: boolean): Reading {
  const samples = new Float64Array(bytes.length >> 1);
  for (let i = 0; i < samples.length; i += 1) samples[i] = bytes.readInt16LE(2 * i);
  // One channel that is stuck is half of something wider; but where it is silent, and these are no floats, it is not used.
  const isOne = [0, 1].some(
    (phase) => isStuck(samples, phase) && (samples[phase] !== 0 || mayBeFloats),
  );
  const { channels, bits } = bestChannels(samples, novelShare, isOne);
  return { codec: 'pcm_s16le', channels, bitsPerByte: bits / 2 };
}

/** Floats from next to nothing to a little over full scale: of other bytes the negative samples alone look like none. */
function readFloat32(bytes: Buffer, novelShare: number): Reading | undefined {
  const samples = new Float64Array(bytes.length >> 2);
  let audible = 0;
  let absurd = 0;
  for (let i = 0; i < samples.length; i += 1) {
    const value = bytes.readFloatLE(4 * i);
    const size = Math.abs(value);
    const isPlausible = size === 0 || (size > 1e-30 && size < 1.5);
    if (!isPlausible) absurd += 1;
    else if (size > 1e-6) audible += 1;
    samples[i] = isPlausible ? value * FLOAT_FULL_SCALE : 0;
  }
  if (audible < samples.length / 10 || absurd > samples.length / 100) return undefined;
  const { channels, bits } = bestChannels(samples, novelShare);
  return { codec: 'pcm_f32le', channels, bitsPerByte: bits / 4 };
}

/** One byte is a step that is the wider, the louder the sample: it holds the fewer bits. */
function readG711(bytes: Buffer, codec: 'pcmu' | 'pcma'): Reading {
  const values = G711_VALUES[codec];
  const samples = new Float64Array(bytes.length);
  for (let i = 0; i < samples.length; i += 1) samples[i] = values[bytes[i]!]!;
  const pooled = covariance(samples).residual();
  const steps = G711_STEPS[codec];
  const counts = new Map<number, number>();
  for (let i = 0; i < bytes.length; i += 1) {
    const step = steps[bytes[i]!]!;
    counts.set(step, (counts.get(step) ?? 0) + 1);
  }
  let bits = 0;
  for (const [step, count] of counts) bits += count * bitsOf(pooled, step);
  return { codec, channels: 1, bitsPerByte: bits / bytes.length };
}

function bestChannels(
  samples: Float64Array,
  novelShare: number,
  isOne = false,
): { channels: number; bits: number } {
  const { residual, correlation } = covariance(samples);
  if (isDoubled(samples)) return { channels: 2, bits: bitsOf(residual(0), 1) / 2 };
  const mono = bitsOf(residual(), 1);
  const stereo = (bitsOf(residual(0), 1) + bitsOf(residual(1), 1)) / 2;
  const leastGain = STEREO_GAIN_BITS + STEREO_TOTAL_GAIN_BITS / (samples.length * novelShare);
  if (mono - stereo > leastGain && !isOne) return { channels: 2, bits: stereo };
  const [last, lastButOne] = [Math.abs(correlation(1)), correlation(2)];
  const areIndependent =
    lastButOne > INDEPENDENT_CORRELATION && last < lastButOne * INDEPENDENT_RATIO;
  return { channels: areIndependent ? 2 : 1, bits: mono };
}

/** One microphone on two channels: the samples of a frame are equal, while those of one frame and the next are not. */
function isDoubled(samples: Float64Array): boolean {
  let [within, across] = [0, 0];
  for (let i = 2; i + 1 < samples.length; i += 2) {
    if (samples[i] === samples[i + 1]) within += 1;
    if (samples[i] === samples[i - 1]) across += 1;
  }
  return within * 2.02 >= samples.length - 3 && across < within * 0.95;
}

/** Every other sample is the same. */
function isStuck(samples: Float64Array, phase: number): boolean {
  for (let i = phase; i < samples.length; i += 2) if (samples[i] !== samples[phase]) return false;
  return true;
}

/** Entropy of a Gaussian of this variance in steps of this width; never below 0. */
function bitsOf(variance: number, step: number): number {
  return Math.max(0, 0.5 * Math.log2(2 * Math.PI * Math.E * (variance / (step * step) + 1 / 12)));
}

/**
 * How well each sample is predicted from the two before it: for all samples, or for every other one alone, which of two
 * interleaved channels are a channel each. Sound of one channel is predicted alike in both phases.
 */
function covariance(samples: Float64Array) {
  const sums = [sumProducts(samples, 2), sumProducts(samples, 3)];
  const pooled = sums[0]!.map((value, i) => value + sums[1]![i]!);
  const count = Math.max(1, samples.length - 2);
  return {
    /** The mean square of what cannot be predicted. */
    residual: (phase?: 0 | 1) =>
      phase === undefined
        ? unpredicted(pooled) / count
        : unpredicted(sums[phase]!) / Math.max(1, count / 2),
    correlation: (lag: 1 | 2) => pooled[lag]! / (pooled[0]! || 1),
  };
}

/** Products of every other sample from `from` with itself and the two before it: xx, xy, xz, yy, yz, zz. */
function sumProducts(samples: Float64Array, from: number): number[] {
  let [xx, xy, xz, yy, yz, zz] = [0, 0, 0, 0, 0, 0];
  for (let n = from; n < samples.length; n += 2) {
    const x = samples[n]!;
    const y = samples[n - 1]!;
    const z = samples[n - 2]!;
    xx += x * x;
    xy += x * y;
    xz += x * z;
    yy += y * y;
    yz += y * z;
    zz += z * z;
  }
  return [xx, xy, xz, yy, yz, zz];
}

/** Least squares with two unknowns. */
function unpredicted(sum: number[]): number {
  const [xx = 0, xy = 0, xz = 0, yy = 0, yz = 0, zz = 0] = sum;
  const determinant = yy * zz - yz * yz;
  const least = xx * LEAST_UNPREDICTED;
  if (determinant <= 1e-9 * yy * zz) return yy > 0 ? Math.max(least, xx - (xy * xy) / yy) : xx;
  const a = (xy * zz - xz * yz) / determinant;
  const b = (xz * yy - xy * yz) / determinant;
  return Math.max(least, xx - a * xy - b * xz);
}
