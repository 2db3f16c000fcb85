/** Gains are told apart in steps of 1 dB: nobody hears less, and listeners whose wishes are alike share a mix. */
const STEP_DB = 1;
/** Softer than this is silence, dB. */
const SOFTEST_DB = -60;

/** The gain that is applied where `gain` is asked for, both as factors; 0 stays 0. */
export function quantizeGain(gain: number): number {
  const steps = Math.round((20 * Math.log10(gain)) / STEP_DB);
  return steps * STEP_DB < SOFTEST_DB ? 0 : 10 ** ((steps * STEP_DB) / 20);
}
