import { bitsOf, bitsPerSample, predict } from './prediction.ts';

/** Minimum savings by encoding in blocks as two channels, bits in total, for which a second channel is accepted. */
const STEREO_BITS = 100;
/**
 * Savings by a second channel, bits per sample, up to which the cost in blocks is not computed; estimated with one level for all samples.
 * Most sound saves less.
 */
const HARDLY_STEREO_BITS = 0.02;
/** Minimum savings only by separate weights for two channels, bits, for which a second channel is accepted: per sample, and in total. */
const OWN_WEIGHTS_BITS = 0.15;
const OWN_WEIGHTS_TOTAL_BITS = 60;
/** Limits for two independent channels: a sample resembles the second one before it, and not the first. */
const INDEPENDENT_RATIO = 0.25;
const INDEPENDENT_CORRELATION = 0.3;

/** Share of bytes that repeat no earlier ones, and number of samples that share one level: all (Infinity) if there are only repetitions. */
export type Novelty = { share: number; blockSamples: number };

/**
 * Returns the number of interleaved channels that samples most likely have, and their cost, bits per sample: as that number of channels,
 * and as the other one (`otherBits`).
 * @param isOne true if the samples are known to be of one channel, even if two would save bits
 */
export function bestChannels(
  samples: Float64Array,
  novelty: Novelty,
  { step, isOne }: { step: number; isOne: boolean },
): { channels: number; bits: number; otherBits: () => number } {
  const prediction = predict(samples);
  const { residual, correlation } = prediction;
  const bitsByChannels: number[] = [];
  const bitsOn = (channels: number) =>
    (bitsByChannels[channels] ??= bitsPerSample(samples, prediction, {
      channels,
      steps: step,
      ...novelty,
    }));
  if (isDoubled(samples)) {
    const one = samples.filter((_, i) => i % 2 === 0);
    const bits = bitsPerSample(one, predict(one), { channels: 1, steps: step, ...novelty }) / 2;
    return { channels: 2, bits, otherBits: () => bits };
  }
  const mono = bitsOf(residual(), step);
  const [left, right] = [residual(0), residual(1)];
  const stereo = (bitsOf(left, step) + bitsOf(right, step)) / 2;
  const isNovel = novelty.blockSamples !== Infinity;
  const novelSamples = samples.length * novelty.share;
  // In speech of one channel, all pulses of the voice may fall on even samples, or all on odd ones,
  // which then seem louder than the others. But both have the same weights, and in most blocks the
  // same level. Therefore a difference in level alone counts only if it shortens the encoding in
  // blocks, or in repetitions, which have no pulses.
  const apart = isNovel ? bitsOf((left + right) / 2, step) : stereo;
  const haveOwnWeights = mono - apart > OWN_WEIGHTS_BITS + OWN_WEIGHTS_TOTAL_BITS / novelSamples;
  const areShorter = () =>
    isNovel &&
    mono - stereo > HARDLY_STEREO_BITS &&
    bitsOn(1) - bitsOn(2) > STEREO_BITS / novelSamples;
  const areTwo = !isOne && (haveOwnWeights || areShorter());
  const [last, lastButOne] = [Math.abs(correlation(1)), correlation(2)];
  const areIndependent =
    lastButOne > INDEPENDENT_CORRELATION && last < lastButOne * INDEPENDENT_RATIO;
  const channels = areTwo || areIndependent ? 2 : 1;
  return {
    channels,
    bits: bitsOn(isOne ? 1 : channels),
    otherBits: () => bitsOn(3 - channels),
  };
}

/** True for one microphone on two channels: the two samples of a moment are equal, while those of consecutive moments are not. */
function isDoubled(samples: Float64Array): boolean {
  let [within, across] = [0, 0];
  for (let i = 2; i + 1 < samples.length; i += 2) {
    if (samples[i] === samples[i + 1]) within += 1;
    if (samples[i] === samples[i - 1]) across += 1;
  }
  return within * 2.02 >= samples.length - 3 && across < within * 0.95;
}
