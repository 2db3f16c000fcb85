import { QUIET_POWER } from '../level.ts';
import { NOISE_SIMILARITY, similarityFrom, similarityOf } from '../similarity.ts';

/**
 * Corrects the pace of one speaker's sound by a pitch period at a time, so that the depth of a jitter buffer can be
 * adjusted during playback: WSOLA with one cut per call. Pure; samples are 48 kHz mono, -1…1.
 */

const MIN_LAG_SAMPLES = 120;
const MAX_LAG_SAMPLES = 720;
/** Length of the cross-fade of a seam, and of the comparison of its sides, samples: 5 ms. */
const FADE_SAMPLES = 240;
/** Decimation of the first search: to 12 kHz, which suffices for a pitch. */
const DECIMATION = 4;
/** Number of positions at which a seam is searched; each further one would find little more, at the same cost. */
const PLACES = 4;

/** Similarity of both sides from which a seam is inaudible; NetEQ requires 0.9, of a longer stretch. */
const ALIKE = 0.85;
/** Minimum similarity of a seam that is better than the delay which it removes. */
const ALIKE_ENOUGH_WHEN_URGENT = 0.5;
/** Maximum ratio of powers within steady noise, 6 dB; a greater one means the edge of another sound. */
const STEADY_POWER_RATIO = 4;
/** Minimum ratio of the power of both sides to that of the loudest 5 ms: -20 dB. A consonant between fainter sides would be lost. */
const FAINT_POWER_RATIO = 0.01;

/** A possible seam, with the similarity ({@link similarityOf}) of the FADE_SAMPLES samples from `at` on to those `lag` samples later. */
type Seam = { at: number; lag: number; similarity: number };

/** Fade from 0 to 1, exactly 0 and 1 at the ends, without slope there. */
const FADE = Float64Array.from(
  { length: FADE_SAMPLES },
  (_, i) => (1 - Math.cos((Math.PI * i) / (FADE_SAMPLES - 1))) / 2,
);

/**
 * Removes a stretch after which the sound repeats itself (one pitch period or a few), and cross-fades over
 * the seam.
 * @param samples 960…2880 samples are best. In fewer than 960, the longest removable period is the length
 *   less 5 ms; in fewer than 360 there is none. Not modified.
 * @param isUrgent true if an audible seam is better than none
 * @param maxSamples maximum number of samples to remove
 * @returns a new array, 120…720 samples (2.5…15 ms) shorter, never empty; its first and its last sample are
 *   those of `samples`, and the joins to the blocks before and after are as smooth as they were. Undefined if
 *   every seam would be audible.
 */
export function compress(
  samples: Float32Array,
  isUrgent = false,
  maxSamples = MAX_LAG_SAMPLES,
): Float32Array | undefined {
  const seam = findSeam(samples, isUrgent, maxSamples);
  return seam && splice(samples, seam.at, seam.at + seam.lag, seam.similarity);
}

/**
 * Repeats a stretch (one pitch period or a few), and cross-fades over the seam.
 * @param samples as for {@link compress}
 * @param isUrgent as for {@link compress}
 * @returns a new array, 120…720 samples (2.5…15 ms) longer; otherwise as for {@link compress}
 */
export function expand(samples: Float32Array, isUrgent = false): Float32Array | undefined {
  const seam = findSeam(samples, isUrgent);
  return seam && splice(samples, seam.at + seam.lag, seam.at, seam.similarity);
}

/** Joins the samples before `from + FADE_SAMPLES` to those after `to`; where they overlap, one fades into the other. */
function splice(samples: Float32Array, from: number, to: number, similarity: number): Float32Array {
  const spliced = new Float32Array(samples.length + from - to);
  spliced.set(samples.subarray(0, from));
  for (let i = 0; i < FADE_SAMPLES; i += 1) {
    const [before, after] = [1 - FADE[i]!, FADE[i]!];
    // Similar sides keep their level when added; unrelated ones would lose 3 dB half-way.
    const power = before * before + after * after + 2 * before * after * similarity;
    spliced[from + i] = (before * samples[from + i]! + after * samples[to + i]!) / Math.sqrt(power);
  }
  spliced.set(samples.subarray(to + FADE_SAMPLES), from + FADE_SAMPLES);
  return spliced;
}

function findSeam(
  samples: Float32Array,
  isUrgent: boolean,
  maxSamples = MAX_LAG_SAMPLES,
): Seam | undefined {
  const maxLag = Math.min(MAX_LAG_SAMPLES, maxSamples, samples.length - FADE_SAMPLES);
  if (maxLag < MIN_LAG_SAMPLES) return undefined;
  const { loudest, softest } = powers(samples);
  if (loudest < QUIET_POWER) {
    const at = (samples.length - FADE_SAMPLES - maxLag) >> 1;
    return { at, lag: maxLag, similarity: Math.max(0, similarityAt(samples, at, maxLag)) };
  }
  const { best, isNoise } = search(decimate(samples), Math.floor(maxLag / DECIMATION));
  if (!best) return undefined;
  const seam = refine(samples, best, maxLag);
  if (isNoise && loudest < softest * STEADY_POWER_RATIO) {
    return { ...seam, similarity: Math.max(0, seam.similarity) };
  }
  return seam.similarity >= (isUrgent ? ALIKE_ENOUGH_WHEN_URGENT : ALIKE) ? seam : undefined;
}

/** Returns the mean square of the loudest and of the softest 5 ms. */
function powers(samples: Float32Array): { loudest: number; softest: number } {
  let [loudest, softest] = [0, Infinity];
  for (let start = 0; start < samples.length; start += FADE_SAMPLES) {
    // The last 5 ms are complete, even if they overlap with those before.
    const from = Math.min(start, samples.length - FADE_SAMPLES);
    let sum = 0;
    for (let i = from; i < from + FADE_SAMPLES; i += 1) sum += samples[i]! * samples[i]!;
    loudest = Math.max(loudest, sum / FADE_SAMPLES);
    softest = Math.min(softest, sum / FADE_SAMPLES);
  }
  return { loudest, softest };
}

function decimate(samples: Float32Array): Float32Array {
  const decimated = new Float32Array(Math.floor(samples.length / DECIMATION));
  for (let i = 0; i < decimated.length; i += 1) {
    const at = i * DECIMATION;
    decimated[i] = samples[at]! + samples[at + 1]! + samples[at + 2]! + samples[at + 3]!;
  }
  return decimated;
}

/** Returns the best seam of all positions and lags, in decimated samples; among equals the one with the longest lag. */
function search(decimated: Float32Array, maxLag: number): { best?: Seam; isNoise: boolean } {
  const width = FADE_SAMPLES / DECIMATION;
  const minLag = MIN_LAG_SAMPLES / DECIMATION;
  const step = Math.max(1, Math.ceil((decimated.length - width - minLag) / PLACES));
  const powerFrom = slidingPower(decimated, width);
  const faint = 2 * FAINT_POWER_RATIO * largestOf(powerFrom);
  // Plain numbers: an object for each improvement would be most of what the mixer allocates.
  let [bestAt, bestLag, mostAlike, leastAlike] = [-1, 0, -Infinity, 1];
  for (let at = 0; at + width + minLag <= decimated.length; at += step) {
    const longest = Math.min(maxLag, decimated.length - width - at);
    for (let lag = longest; lag >= minLag; lag -= 1) {
      const power = powerFrom[at]! + powerFrom[at + lag]!;
      if (power < faint) continue;
      const alike = similarityFrom(productAt(decimated, at, lag, width), power);
      if (alike < leastAlike) leastAlike = alike;
      if (alike <= mostAlike) continue;
      mostAlike = alike;
      bestAt = at;
      bestLag = lag;
    }
  }
  if (bestAt < 0) return { isNoise: false };
  const best = { at: bestAt, lag: bestLag, similarity: mostAlike };
  // Tones resemble their inverse half a period away; noise does not.
  return { best, isNoise: mostAlike < NOISE_SIMILARITY && leastAlike > -NOISE_SIMILARITY };
}

function largestOf(values: Float64Array): number {
  let largest = 0;
  for (let i = 0; i < values.length; i += 1) if (values[i]! > largest) largest = values[i]!;
  return largest;
}

/** Refines a seam to the exact sample. */
function refine(samples: Float32Array, coarse: Seam, maxLag: number): Seam {
  const at = coarse.at * DECIMATION;
  const middle = coarse.lag * DECIMATION;
  const longest = Math.min(maxLag, samples.length - FADE_SAMPLES - at, middle + DECIMATION);
  let best: Seam = { at, lag: middle, similarity: -1 };
  for (let lag = Math.max(MIN_LAG_SAMPLES, middle - DECIMATION); lag <= longest; lag += 1) {
    const alike = similarityAt(samples, at, lag);
    if (alike > best.similarity) best = { at, lag, similarity: alike };
  }
  return best;
}

function similarityAt(samples: Float32Array, at: number, lag: number): number {
  const side = (from: number) => samples.subarray(from, from + FADE_SAMPLES);
  return similarityOf(side(at), side(at + lag));
}

/** Returns the sum over `width` samples, an even number, of each sample times the one `lag` later. */
function productAt(samples: Float32Array, at: number, lag: number, width: number): number {
  // Two sums, so that one addition need not wait for the other: this loop dominates the cost of a
  // call.
  let [even, odd] = [0, 0];
  for (let i = at; i < at + width; i += 2) {
    even += samples[i]! * samples[i + lag]!;
    odd += samples[i + 1]! * samples[i + 1 + lag]!;
  }
  return even + odd;
}

/** Returns the sum of the squares of `width` samples from each sample on. */
function slidingPower(samples: Float32Array, width: number): Float64Array {
  const power = new Float64Array(samples.length - width + 1);
  power[0] = productAt(samples, 0, 0, width);
  for (let at = 1; at < power.length; at += 1) {
    const [gone, come] = [samples[at - 1]!, samples[at - 1 + width]!];
    power[at] = power[at - 1]! - gone * gone + come * come;
  }
  return power;
}
