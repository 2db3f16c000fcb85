/** Duration of the fade-in of audio that begins in the middle of a word, samples: 5 ms. */
const RISE_SAMPLES = 240;

/** Fades the first 5 ms in from silence, in place. */
export function fadeIn(samples: Float32Array): void {
  const length = Math.min(RISE_SAMPLES, samples.length);
  for (let i = 0; i < length; i += 1) samples[i]! *= i / length;
}

/** Cross-fades from `from` to `samples`, in place. */
export function crossFade(samples: Float32Array, from: Float32Array): void {
  const { length } = samples;
  for (let i = 0; i < length; i += 1) samples[i]! += (from[i]! - samples[i]!) * (1 - i / length);
}

/** Fades all samples out to silence, in place. */
export function fadeOut(samples: Float32Array): void {
  for (let i = 0; i < samples.length; i += 1) samples[i]! *= 1 - i / samples.length;
}
