/** Tells by how much each stretch of a sound is heard later than it was sent: what is lost or repeated changes that. */

const RATE_HZ = 48_000;
const STRETCH_SAMPLES = 2400;
/** Longest lag that is found, in both directions, samples. */
const MAX_LAG = 960;

/** Lag of a stretch of 50 ms. */
export type Lag = {
  /** Place of the stretch in what was heard, samples. */
  at: number;
  /** Samples by which it is heard later than it was sent. */
  lag: number;
  /** Correlation with what was sent: 1 is the same but for the level. */
  likeness: number;
};

/** A tone that glides up and down by 800 Hz around one that rises slowly from 1200 Hz: no two stretches of it are alike. */
export function siren(amplitude: number, durationMs: number, rateHz = RATE_HZ): Float32Array {
  return Float32Array.from({ length: (durationMs * rateHz) / 1000 }, (_, i) => {
    const seconds = i / rateHz;
    const glide = (800 / 3) * Math.sin(2 * Math.PI * 3 * seconds);
    return amplitude * Math.sin(2 * Math.PI * (1200 * seconds + 5 * seconds ** 2) + glide);
  });
}

/**
 * Returns the lags of a sound, stretch by stretch, at 48 kHz.
 * @param least level below which a stretch is left out, as its root mean square
 */
export function lagsOf(sent: Float32Array, heard: Float32Array, least = 0.01): Lag[] {
  const lags: Lag[] = [];
  const energies = energiesOf(sent);
  for (let at = 0; at + STRETCH_SAMPLES <= heard.length; at += STRETCH_SAMPLES) {
    const stretch = heard.subarray(at, at + STRETCH_SAMPLES);
    const energy = product(stretch, stretch, 0);
    if (Math.sqrt(energy / STRETCH_SAMPLES) < least) continue;
    let best = { at, lag: 0, likeness: -Infinity };
    for (let lag = -MAX_LAG; lag <= MAX_LAG; lag += 1) {
      const from = Math.max(0, at - lag);
      const to = Math.min(sent.length, Math.max(from, at - lag + STRETCH_SAMPLES));
      const energyThere = energies[to]! - energies[from]!;
      if (energyThere <= 0) continue;
      const alike = product(sent.subarray(from, to), stretch, from - (at - lag));
      const likeness = alike / Math.sqrt(energy * energyThere);
      if (likeness > best.likeness) best = { at, lag, likeness };
    }
    lags.push(best);
  }
  return lags;
}

/** Sums of the squares of the samples before each place. */
function energiesOf(sound: Float32Array): Float64Array {
  const energies = new Float64Array(sound.length + 1);
  for (const [i, sample] of sound.entries()) energies[i + 1] = energies[i]! + sample ** 2;
  return energies;
}

/** Sum of the products of samples, where the first of one lies beside that of the other at `offset`. */
function product(one: Float32Array, other: Float32Array, offset: number): number {
  let sum = 0;
  const length = Math.min(one.length, other.length - offset);
  for (let i = 0; i < length; i += 1) sum += one[i]! * other[i + offset]!;
  return sum;
}
