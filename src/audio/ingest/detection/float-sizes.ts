/** Size from which a float is no sample. A browser does not limit what a gain node amplifies. */
export const MOST_FLOAT = 64;
/** Size below which a float other than 0 is none that a program computes. */
const LEAST_FLOAT = 1e-30;
/** Size above which a float may be heard. */
const AUDIBLE_FLOAT = 1e-6;
const LEAST_AUDIBLE_SHARE = 0.1;
const MOST_ABSURD_SHARE = 0.01;
/** Size of the faintest floats of sound that is made almost silent, and the minimum share of such floats and zeros. */
const FAINT_FLOAT = 1e-13;
const LEAST_FAINT_SHARE = 0.95;
const LEAST_SHARE_OF_SIGN = 0.1;

/** True for a float that may be a sample. */
export function isFloatSample(value: number): boolean {
  const size = Math.abs(value);
  return size === 0 || (size > LEAST_FLOAT && size < MOST_FLOAT);
}

/** True for floats of which some may be heard, and almost none is absurd. */
export function areFloats(floats: Float64Array): boolean {
  let [audible, absurd] = [0, 0];
  for (const value of floats) {
    if (!isFloatSample(value)) absurd += 1;
    else if (Math.abs(value) > AUDIBLE_FLOAT) audible += 1;
  }
  const { length } = floats;
  return audible >= length * LEAST_AUDIBLE_SHARE && absurd <= length * MOST_ABSURD_SHARE;
}

/** True for floats that are all too faint to be heard, as of a muted track: none is absurd, and both signs are frequent. */
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

/** Minimum number of wide floats. */
const LEAST_WIDE_FLOATS = 33;
/** Sizes of samples in floats of another scale: up to those of 16-bit integers. */
const LEAST_WIDE_FLOAT = 1e-9;
const MOST_WIDE_FLOAT = 65_537;
const LEAST_PLAUSIBLE_SHARE = 0.97;

/**
 * True for floats of a scale that is not decoded: almost all are 0 or of a plausible size, half are loud, and some are negative.
 * @param loud size from which a float is loud
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
