const QUIETEST_DB = -60;
const LOUDEST_DB = -10;

/** A level in dB below full scale as the share of a meter's length, 0 to 1: speech fills most of it, silence none. */
export function meterShare(levelDb: number): number {
  return Math.min(1, Math.max(0, (levelDb - QUIETEST_DB) / (LOUDEST_DB - QUIETEST_DB)));
}
