/** Arithmetic on stretches of sound at 48 kHz that are to be joined, repeated or left out without a click. */

/** Length over which one stretch goes over into another: 5 ms. */
export const SEAM_SAMPLES = 240;
/** Lags that are tried: periods of voices from 50 to 400 Hz. */
const SHORTEST_LAG = 120;
const LONGEST_LAG = 960;
/** Distance between the samples that are compared: the lags of voices need no more. */
const STRIDE = 4;

/** How alike two stretches are, from −1 to 1. */
function likeness(a: Float32Array, b: Float32Array): number {
  let [product, powerA, powerB] = [0, 1e-9, 1e-9];
  for (let i = 0; i < a.length; i += STRIDE) {
    product += a[i]! * b[i]!;
    powerA += a[i]! * a[i]!;
    powerB += b[i]! * b[i]!;
  }
  return product / Math.sqrt(powerA * powerB);
}

/**
 * How many samples at the beginning of a stretch can be left out, so that what follows fits what was before; the best of them, 0 if
 * the stretch is too short.
 */
export function repeatLag(stretch: Float32Array): number {
  const template = stretch.subarray(0, SEAM_SAMPLES);
  let [best, bestLag] = [-Infinity, 0];
  for (let lag = SHORTEST_LAG; lag + SEAM_SAMPLES <= stretch.length; lag += STRIDE) {
    const found = likeness(template, stretch.subarray(lag, lag + SEAM_SAMPLES));
    // In silence all lags are alike: the longest is the best.
    if (found >= best) [best, bestLag] = [found, lag];
  }
  return bestLag;
}

/** Period with which the end of a sound goes on best. */
function period(history: Float32Array): number {
  const end = history.length;
  const template = history.subarray(end - SEAM_SAMPLES);
  const longest = Math.min(LONGEST_LAG, end - SEAM_SAMPLES);
  let [best, bestLag] = [-Infinity, longest];
  for (let lag = SHORTEST_LAG; lag <= longest; lag += STRIDE) {
    const found = likeness(template, history.subarray(end - SEAM_SAMPLES - lag, end - lag));
    if (found > best) [best, bestLag] = [found, lag];
  }
  return bestLag;
}

/**
 * Goes on with a sound by repeating its last period ever more softly.
 * @param history what was before, with what has been made up already at its end
 * @param madeUp how many samples have been
 * @param longest how many are made up at most; after them there is silence
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

/** Lets one stretch go over into another of the same length, in place. */
export function joinSmoothly(from: Float32Array, into: Float32Array): void {
  for (let i = 0; i < into.length; i += 1) {
    const share = (i + 0.5) / into.length;
    into[i] = from[i]! * (1 - share) + into[i]! * share;
  }
}
