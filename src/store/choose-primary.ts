import type { SentinelAnswer } from './sentinel.ts';

/**
 * Chooses among the answers of sentinels: the newest counts. Answers that are older than what is known come from sentinels
 * that were cut off during a failover, unless most of all sentinels agree: then they were set up anew. Pure.
 * @param known what was chosen before
 * @param sentinels number of sentinels that were asked
 * @returns undefined if there is no answer that counts
 */
export function choosePrimary(
  answers: readonly SentinelAnswer[],
  known: SentinelAnswer | undefined,
  sentinels: number,
): SentinelAnswer | undefined {
  const [newest] = answers.toSorted((one, other) => other.epoch - one.epoch);
  if (!newest) return undefined;
  const isOutdated = known !== undefined && newest.epoch < known.epoch;
  return isOutdated && answers.length * 2 <= sentinels ? undefined : newest;
}

/** Returns whether two answers name the same server. */
export const isSameServer = (one: SentinelAnswer, other: SentinelAnswer) =>
  one.host === other.host && one.port === other.port;
