import { SILENCE_LEVEL } from '../rtp/packet.ts';

/** Power below which audio, and a cut or a seam in it, is inaudible: -50 dBFS. */
export const QUIET_POWER = 1e-5;

/**
 * Returns the audio level of a block of samples (RFC 6464): -dBov, 0 for a full-scale square wave … 127 for silence.
 * @param samples -1…1
 */
export function audioLevelOf(samples: Float32Array): number {
  const power = powerOf(samples);
  if (power === 0) return SILENCE_LEVEL;
  return Math.min(SILENCE_LEVEL, Math.max(0, Math.round(-10 * Math.log10(power))));
}

/** Returns the mean square of a block of samples: 1 for a full-scale square wave, 0 for silence or no samples. */
export function powerOf(samples: Float32Array): number {
  // Four sums: in a single one each addition would wait for the one before.
  let [a, b, c, d] = [0, 0, 0, 0];
  const end = samples.length - (samples.length % 4);
  for (let i = 0; i < end; i += 4) {
    a += samples[i]! * samples[i]!;
    b += samples[i + 1]! * samples[i + 1]!;
    c += samples[i + 2]! * samples[i + 2]!;
    d += samples[i + 3]! * samples[i + 3]!;
  }
  for (let i = end; i < samples.length; i += 1) a += samples[i]! * samples[i]!;
  return (a + b + c + d) / Math.max(1, samples.length);
}
