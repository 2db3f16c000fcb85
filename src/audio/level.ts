import { SILENCE_LEVEL } from '../rtp/packet.ts';

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
  let energy = 0;
  for (let i = 0; i < samples.length; i += 1) energy += samples[i]! * samples[i]!;
  return energy / Math.max(1, samples.length);
}
