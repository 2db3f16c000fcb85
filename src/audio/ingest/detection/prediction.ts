/** Linear prediction of samples, each from the two before it, and the power of what remains unpredicted. */

/** Minimum share of the power that counts as unpredicted: rounding leaves as much even of a computed tone. */
const LEAST_UNPREDICTED = 1e-9;
/** Number of samples within which the level of speech hardly changes. */
export const BLOCK_SAMPLES = 64;
/** Bits that encode the level of a block. */
const LEVEL_BITS = 4;

/** Products of samples with themselves and the two before them: xx, xy, xz, yy, yz, zz. */
type Products = [number, number, number, number, number, number];

/** Prediction of all samples, or of every other one (`phase`). */
export type Prediction = {
  /** Mean square of what remains unpredicted. */
  residual: (phase?: 0 | 1) => number;
  /** Correlation of samples with those one or two before them. */
  correlation: (lag: 1 | 2) => number;
  /** Weights of the last sample and the one before it in the prediction of the next. */
  weights: (phase?: 0 | 1) => [number, number];
};

/**
 * Predicts each sample from the two before it. Every other sample is predicted apart, too: if the samples are of two interleaved
 * channels, the prediction of the two phases differs; if they are of one channel, it is equal.
 */
export function predict(samples: Float64Array): Prediction {
  const sums = [sumProducts(samples, 2), sumProducts(samples, 3)] as const;
  const pooled = sums[0].map((value, i) => value + sums[1][i]!) as Products;
  const count = Math.max(1, samples.length - 2);
  return {
    residual: (phase) =>
      phase === undefined
        ? unpredicted(pooled) / count
        : unpredicted(sums[phase]) / Math.max(1, count / 2),
    correlation: (lag) => pooled[lag] / (pooled[0] || 1),
    weights: (phase) => weightsOf(phase === undefined ? pooled : sums[phase]),
  };
}

/** Returns the products of every other sample from `from` on. */
function sumProducts(samples: Float64Array, from: number): Products {
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

/** Returns the weights of the best prediction, by least squares. */
function weightsOf([, xy, xz, yy, yz, zz]: Products): [number, number] {
  const determinant = yy * zz - yz * yz;
  if (determinant <= 1e-9 * yy * zz) return yy > 0 ? [xy / yy, 0] : [0, 0];
  return [(xy * zz - xz * yz) / determinant, (xz * yy - xy * yz) / determinant];
}

function unpredicted(products: Products): number {
  const [xx, xy, xz, yy] = products;
  const [a, b] = weightsOf(products);
  return yy > 0 ? Math.max(xx * LEAST_UNPREDICTED, xx - a * xy - b * xz) : xx;
}

type Coding = {
  /** Number of interleaved channels; each is predicted with its own weights. */
  channels: number;
  /** Number of samples of a channel that share one level. */
  blockSamples: number;
  /** Distance between the possible values of a sample, a power of two: one for all samples, or one for each. */
  steps: number | Float64Array;
};

/** Returns the cost of samples, bits per sample, if what remains unpredicted is encoded with one level for each block. */
export function bitsPerSample(
  samples: Float64Array,
  { weights }: Prediction,
  { channels, blockSamples, steps }: Coding,
): number {
  let bits = 0;
  for (let channel = 0; channel < channels; channel += 1) {
    const [a, b] = weights(channels === 2 ? (channel as 0 | 1) : undefined);
    const blockLength = blockSamples * channels;
    for (let from = channel; from < samples.length; from += blockLength) {
      const to = Math.min(samples.length, from + blockLength);
      let [power, leftPower] = [0, 0];
      for (let n = from; n < to; n += channels) {
        const left = samples[n]! - a * (samples[n - 1] ?? 0) - b * (samples[n - 2] ?? 0);
        power += samples[n]! ** 2;
        leftPower += left * left;
      }
      const count = Math.ceil((to - from) / channels);
      const variance = Math.max(power * LEAST_UNPREDICTED, leftPower) / count;
      bits += LEVEL_BITS;
      if (typeof steps === 'number') bits += count * bitsOf(variance, steps);
      else bits += bitsInSteps(variance, steps.subarray(from, to));
    }
  }
  return samples.length > 0 ? bits / samples.length : 0;
}

/** Bits of a sample whose step is 2 to the power of the index; −1 while they have not been computed. */
const bitsByStep = new Float64Array(32);

/** Returns the bits of samples that have steps of their own; each distinct step is computed once, because logarithms are slow. */
function bitsInSteps(variance: number, steps: Float64Array): number {
  bitsByStep.fill(-1);
  let bits = 0;
  for (const step of steps) {
    const power = 31 - Math.clz32(step);
    let ofStep = bitsByStep[power]!;
    if (ofStep < 0) {
      ofStep = bitsOf(variance, step);
      bitsByStep[power] = ofStep;
    }
    bits += ofStep;
  }
  return bits;
}

/** Returns the entropy of a Gaussian of a variance, rounded to steps of a width, bits; 0 or more. */
export function bitsOf(variance: number, step: number): number {
  return Math.max(0, 0.5 * Math.log2(2 * Math.PI * Math.E * (variance / (step * step) + 1 / 12)));
}
