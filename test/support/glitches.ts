/**
 * Finds what an ear would call a click, a crackle or a drop-out in a sound that is otherwise smooth: tones, sweeps,
 * music. A click is a sample that the ones before it do not foretell (linear prediction); a gap is a moment without sound
 * in the middle of it. Samples are at 48 kHz, between -1 and 1.
 */

export type Glitch = {
  kind: 'click' | 'gap';
  atMs: number;
  /** For clicks, over what is normal here. */ db: number;
};

const SAMPLES_PER_MS = 48;
const ORDER = 24;
const WINDOW = 1920;
const HOP = 960;
/** Coding noise has peaks of four or five times what is usual. */
const CLICK_RATIO = 9;
/** Below this share of the sound itself nobody hears it, however smooth the sound is. */
const CLICK_FLOOR = 0.03;
/** Clicks closer together than this are one. */
const ONE_CLICK_MS = 5;
const GAP_HOP = 60;
const GAP_RATIO = 0.05;
const SILENCE = 1e-4;

/** Everything between the first and the last sound is searched, but for the 20 ms at each end. */
export function findGlitches(samples: Float32Array): Glitch[] {
  const first = samples.findIndex((sample) => Math.abs(sample) > SILENCE);
  const last = samples.findLastIndex((sample) => Math.abs(sample) > SILENCE);
  if (first === -1) return [];
  const sound = samples.subarray(first, last + 1);
  const found = [...findClicks(sound), ...findGaps(sound)];
  return found
    .map((glitch) => ({ ...glitch, atMs: glitch.atMs + first / SAMPLES_PER_MS }))
    .toSorted((one, other) => one.atMs - other.atMs);
}

function findClicks(sound: Float32Array): Glitch[] {
  const clicks: Glitch[] = [];
  for (let start = 0; start + WINDOW <= sound.length; start += HOP) {
    const window = sound.subarray(start, start + WINDOW);
    const level = rms(window);
    if (level < SILENCE) continue;
    const errors = predictionErrors(window);
    for (let i = 0; i < WINDOW; i += 1) errors[i] = Math.abs(errors[i]!);
    const usual = median(errors) / 0.6745;
    const limit = Math.max(CLICK_RATIO * usual, CLICK_FLOOR * level);
    const [from, to] = [(WINDOW - HOP) / 2, (WINDOW + HOP) / 2];
    for (let i = from; i < to; i += 1) {
      const error = errors[i]!;
      if (error <= limit) continue;
      const atMs = (start + i) / SAMPLES_PER_MS;
      const db = 20 * Math.log10(error / limit);
      const previous = clicks.at(-1);
      if (!previous || atMs - previous.atMs > ONE_CLICK_MS)
        clicks.push({ kind: 'click', atMs, db });
      else previous.db = Math.max(previous.db, db);
    }
  }
  return clicks;
}

function findGaps(sound: Float32Array): Glitch[] {
  const levels: number[] = [];
  for (let at = 0; at + GAP_HOP <= sound.length; at += GAP_HOP) {
    levels.push(rms(sound.subarray(at, at + GAP_HOP)));
  }
  const usual = median(Float32Array.from(levels));
  const isQuiet = levels.map((level) => level < GAP_RATIO * usual);
  const gaps: Glitch[] = [];
  for (const [i, quiet] of isQuiet.entries()) {
    if (!quiet || isQuiet[i - 1]) continue;
    gaps.push({ kind: 'gap', atMs: (i * GAP_HOP) / SAMPLES_PER_MS, db: 0 });
  }
  return gaps;
}

const HANN = Float32Array.from(
  { length: WINDOW },
  (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / WINDOW),
);

/** Returns the residual of linear prediction of {@link ORDER}: coefficients by Levinson and Durbin from a Hann window. */
function predictionErrors(window: Float32Array): Float32Array {
  const coefficients = predictorOf(window);
  const errors = new Float32Array(WINDOW);
  for (let i = ORDER; i < WINDOW; i += 1) {
    let foretold = 0;
    for (let k = 0; k < ORDER; k += 1) foretold += coefficients[k]! * window[i - 1 - k]!;
    errors[i] = window[i]! - foretold;
  }
  return errors;
}

/** Coefficients of the predictor, that of the sample before first; of a pure tone the last are 0. */
function predictorOf(window: Float32Array): Float64Array {
  const correlation = autocorrelation(window);
  // A little white noise keeps the equations of pure tones solvable.
  correlation[0]! *= 1 + 1e-9;
  const coefficients = new Float64Array(ORDER);
  const before = new Float64Array(ORDER);
  let error = correlation[0]!;
  for (let order = 1; order <= ORDER; order += 1) {
    let sum = correlation[order]!;
    for (let i = 0; i < order - 1; i += 1) sum -= coefficients[i]! * correlation[order - 1 - i]!;
    const reflection = sum / error;
    before.set(coefficients);
    for (let i = 0; i < order - 1; i += 1) {
      coefficients[i] = before[i]! - reflection * before[order - 2 - i]!;
    }
    coefficients[order - 1] = reflection;
    error *= 1 - reflection ** 2;
    if (error <= 1e-12 * correlation[0]!) break;
  }
  return coefficients;
}

/** Correlation of a window with itself at each lag up to {@link ORDER}. */
function autocorrelation(window: Float32Array): Float64Array {
  const weighted = new Float32Array(WINDOW);
  for (let i = 0; i < WINDOW; i += 1) weighted[i] = window[i]! * HANN[i]!;
  const correlation = new Float64Array(ORDER + 1);
  for (let lag = 0; lag <= ORDER; lag += 1) {
    let sum = 0;
    for (let i = lag; i < WINDOW; i += 1) sum += weighted[i]! * weighted[i - lag]!;
    correlation[lag] = sum;
  }
  return correlation;
}

function rms(samples: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < samples.length; i += 1) sum += samples[i]! ** 2;
  return Math.sqrt(sum / samples.length);
}

const median = (values: Float32Array) => values.toSorted()[Math.floor(values.length / 2)] ?? 0;
