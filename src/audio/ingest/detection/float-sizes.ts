/** Rules by which bytes are taken for samples of 32 or 64 bits in floating point, whose full scale is 1. */

/** Absolute value from which a float is not taken for a sample. It is far above 1, because browsers do not limit what a gain node amplifies. */
const MOST_FLOAT = 64;
/** Absolute value up to which a float other than 0 is not taken for a sample: no program computes such small ones. */
const LEAST_FLOAT = 1e-30;
/** Absolute value above which a sample may be heard. */
const AUDIBLE_FLOAT = 1e-6;
/** Minimum share of audible samples. */
const LEAST_AUDIBLE_SHARE = 0.1;
/** Maximum share of floats that are no samples. */
const MOST_ABSURD_SHARE = 0.01;
/** Maximum share of floats that are no samples among the few that {@link areAbsurdFloats} reads. */
const MOST_ABSURD_SHARE_AT_A_GLANCE = 0.05;
/** Absolute value above which a sample may be one of a sound that was made almost silent. */
const FAINT_FLOAT = 1e-13;
/** Minimum share of such samples and zeros in an almost silent sound. */
const LEAST_FAINT_SHARE = 0.95;
/** Minimum share of samples of each sign. */
const LEAST_SHARE_OF_SIGN = 0.1;

/** Returns true if a float may be a sample. */
export function isFloatSample(value: number): boolean {
  const size = Math.abs(value);
  return size === 0 || (size > LEAST_FLOAT && size < MOST_FLOAT);
}

/** Returns true for floats that may be the samples of an audible sound. */
export function areFloats(floats: Float64Array): boolean {
  let [audible, absurd] = [0, 0];
  for (const value of floats) {
    if (!isFloatSample(value)) absurd += 1;
    else if (Math.abs(value) > AUDIBLE_FLOAT) audible += 1;
  }
  const { length } = floats;
  return audible >= length * LEAST_AUDIBLE_SHARE && absurd <= length * MOST_ABSURD_SHARE;
}

/** Returns true for floats that may be the samples of an almost silent sound, as of a muted track: all may be samples, and both signs are frequent. */
export function areTinyFloats(floats: Float64Array): boolean {
  let [positive, negative, faint] = [0, 0, 0];
  for (const value of floats) {
    const size = Math.abs(value);
    if (!isFloatSample(value) || size > AUDIBLE_FLOAT) return false;
    if (value > 0) positive += 1;
    if (value < 0) negative += 1;
    if (size === 0 || size > FAINT_FLOAT) faint += 1;
  }
  const { length } = floats;
  const leastOfSign = Math.min(positive, negative);
  return faint > length * LEAST_FAINT_SHARE && leastOfSign > length * LEAST_SHARE_OF_SIGN;
}

/** Minimum number of floats from which {@link areOddFloats} judges. */
const LEAST_WIDE_FLOATS = 33;
/** Absolute value up to which a float other than 0 is not taken for a sample of another scale. */
const LEAST_WIDE_FLOAT = 1e-9;
/** Absolute value from which a float is not taken for a sample of another scale: that of 16-bit integers is the greatest. */
const MOST_WIDE_FLOAT = 65_537;
/** Minimum share of floats that may be samples of another scale. */
const LEAST_PLAUSIBLE_SHARE = 0.97;

/**
 * Returns true for floats that may be samples of a scale that is not decoded: almost all are 0 or of a plausible size, half are loud,
 * and some are negative.
 * @param loud absolute value from which a sample is loud
 */
export function areOddFloats(
  length: number,
  read: (index: number) => number,
  loud: number,
): boolean {
  const mostAbsurd = Math.floor(length * (1 - LEAST_PLAUSIBLE_SHARE));
  let [absurd, louder, negative] = [0, 0, 0];
  for (let i = 0; i < length; i += 1) {
    const value = read(i);
    const size = Math.abs(value);
    const isPlausible = size === 0 || (size > LEAST_WIDE_FLOAT && size < MOST_WIDE_FLOAT);
    if (!isPlausible) absurd += 1;
    else if (size >= loud) louder += 1;
    if (value < 0) negative += 1;
    if (absurd > mostAbsurd) return false;
  }
  return (
    length >= LEAST_WIDE_FLOATS && 2 * louder >= length && negative > length * LEAST_SHARE_OF_SIGN
  );
}

/** Returns true for bytes that are no floats of sound, because too many are too large or too small. */
export function areAbsurdFloats(bytes: Buffer): boolean {
  let absurd = 0;
  for (let at = 0; at + 4 <= bytes.length; at += 4) {
    if (!isFloatSample(bytes.readFloatLE(at))) absurd += 1;
  }
  return absurd * 4 > bytes.length * MOST_ABSURD_SHARE_AT_A_GLANCE;
}
