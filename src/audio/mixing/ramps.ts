/** Sound that begins in the middle of a word rises so fast. */
const RISE_SAMPLES = 240;

/** Lets the first 5 ms rise from silence, in place. */
export function rise(samples: Float32Array): void {
  const length = Math.min(RISE_SAMPLES, samples.length);
  for (let i = 0; i < length; i += 1) samples[i]! *= i / length;
}

/** Lets all of it fall to silence, in place. */
export function fall(samples: Float32Array): void {
  for (let i = 0; i < samples.length; i += 1) samples[i]! *= 1 - i / samples.length;
}
