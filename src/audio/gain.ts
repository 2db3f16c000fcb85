/** Step of gains, dB: smaller differences are inaudible, and listeners with similar gains share a mix. */
const STEP_DB = 1;
/** Gain below which a speaker is silent, dB. */
const SOFTEST_DB = -60;

/** Returns the gain that is applied for a requested `gain`, both as factors; 0 stays 0. */
export function quantizeGain(gain: number): number {
  const steps = Math.round((20 * Math.log10(gain)) / STEP_DB);
  return steps * STEP_DB < SOFTEST_DB ? 0 : 10 ** ((steps * STEP_DB) / 20);
}
