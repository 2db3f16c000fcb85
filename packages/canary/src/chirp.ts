/** The sound that the canary plays: a sine whose frequency rises steadily, so that no two parts of it are alike. */

export const RATE_HZ = 48_000;
export const FRAME_MS = 20;
export const FRAME_SAMPLES = (RATE_HZ * FRAME_MS) / 1000;
export const CHIRP_FRAMES = 48;

const FROM_HZ = 300;
const TO_HZ = 1700;
const AMPLITUDE = 0.3;
/** Fading in and out avoids a click. */
const FADE_SAMPLES = FRAME_SAMPLES;

/** Returns the samples of the chirp: {@link CHIRP_FRAMES} frames at 48 kHz. */
export function makeChirp(): Float32Array {
  const length = CHIRP_FRAMES * FRAME_SAMPLES;
  const riseHzPerS = ((TO_HZ - FROM_HZ) * RATE_HZ) / length;
  return Float32Array.from({ length }, (_, i) => {
    const seconds = i / RATE_HZ;
    const fade = Math.min(1, i / FADE_SAMPLES, (length - 1 - i) / FADE_SAMPLES);
    const cycles = FROM_HZ * seconds + (riseHzPerS / 2) * seconds ** 2;
    return AMPLITUDE * fade * Math.sin(2 * Math.PI * cycles);
  });
}

/** Returns the duration of a number of samples, in ms. */
export const msOf = (samples: number): number => (samples * 1000) / RATE_HZ;
