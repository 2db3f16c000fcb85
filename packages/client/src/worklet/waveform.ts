/** Operations on stretches of audio at 48 kHz that are joined, repeated or left out without a click. */

/** Length of a cross-fade: 5 ms. */
export const SEAM_SAMPLES = 240;
/** Range of lags: periods of voices from 50 to 400 Hz. */
const SHORTEST_LAG = 120;
const LONGEST_LAG = 960;
/** Distance between the samples that are compared, which suffices for the lags of voices. */
const STRIDE = 4;

/** Returns the similarity of two stretches, from −1 to 1. */
function similarity(a: Float32Array, b: Float32Array): number {
  let [product, powerA, powerB] = [0, 1e-9, 1e-9];
  for (let i = 0; i < a.length; i += STRIDE) {
    product += a[i]! * b[i]!;
    powerA += a[i]! * a[i]!;
    powerB += b[i]! * b[i]!;
  }
  return product / Math.sqrt(powerA * powerB);
}

/**
 * Returns the number of samples at the beginning of a stretch that can be left out so that the rest fits best
 * to the audio before it; 0 if the stretch is too short.
 */
export function repeatLag(stretch: Float32Array): number {
  const template = stretch.subarray(0, SEAM_SAMPLES);
  let [best, bestLag] = [-Infinity, 0];
  for (let lag = SHORTEST_LAG; lag + SEAM_SAMPLES <= stretch.length; lag += STRIDE) {
    const found = similarity(template, stretch.subarray(lag, lag + SEAM_SAMPLES));
    // In silence all lags are alike: the longest is the best.
    if (found >= best) [best, bestLag] = [found, lag];
  }
  return bestLag;
}

/** Returns the period by which the end of audio is best continued. */
function period(history: Float32Array): number {
  const end = history.length;
  const template = history.subarray(end - SEAM_SAMPLES);
  const longest = Math.min(LONGEST_LAG, end - SEAM_SAMPLES);
  let [best, bestLag] = [-Infinity, longest];
  for (let lag = SHORTEST_LAG; lag <= longest; lag += STRIDE) {
    const found = similarity(template, history.subarray(end - SEAM_SAMPLES - lag, end - lag));
    if (found > best) [best, bestLag] = [found, lag];
  }
  return bestLag;
}

/**
 * Continues audio by repeating its last period ever more softly.
 * @param history preceding audio, with the samples synthesized so far at its end
 * @param madeUp number of samples synthesized so far
 * @param longest maximum number of synthesized samples; after them there is silence
 */
export function extend(
  history: Float32Array,
  out: Float32Array,
  madeUp: number,
  longest: number,
): void {
  const lag = period(history);
  const gainAt = (n: number) => (n < 0 ? 1 : Math.max(0, 1 - n / longest));
  for (let i = 0; i < out.length; i += 1) {
    const source = i < lag ? history[history.length - lag + i]! : out[i - lag]!;
    const n = madeUp + i;
    const before = gainAt(n - lag);
    out[i] = before > 0 ? (source * gainAt(n)) / before : 0;
  }
}

/** Cross-fades from one stretch to another of the same length, in place. */
export function joinSmoothly(from: Float32Array, into: Float32Array): void {
  for (let i = 0; i < into.length; i += 1) {
    const share = (i + 0.5) / into.length;
    into[i] = from[i]! * (1 - share) + into[i]! * share;
  }
}
