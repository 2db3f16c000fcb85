import type { Comparison } from './compare.ts';

/** Maximum share of lost frames of a direction that counts as whole. docker/alerts.yml has the same limit. */
const MOST_LOST = 0.1;
/** Maximum distance of a direction's level from that sent, in dB: a gateway changes none. docker/alerts.yml has the same limit. */
const MOST_LEVEL_DB = 3;

/** Returns what is wrong with the sound of a direction, for its line in the report; undefined if it is heard as it was sent. */
export function flawOf({ isSilent, lostShare, levelDb = 0 }: Comparison): string | undefined {
  if (isSilent) return 'SILENT';
  const flaws = [
    lostShare > MOST_LOST && 'TOO MUCH LOST',
    levelDb < -MOST_LEVEL_DB && 'TOO QUIET',
    levelDb > MOST_LEVEL_DB && 'TOO LOUD',
  ].filter((flaw) => flaw !== false);
  return flaws.length === 0 ? undefined : flaws.join(', ');
}
