import type { SentinelAnswer } from './sentinel.ts';

/**
 * Chooses among the answers of sentinels: the newest counts. An answer that is no newer than the known one, and names another
 * server, counts only if a majority of all sentinels agrees: it comes from a sentinel that was cut off during a failover, or is
 * about to report one, unless all were set up again. Pure.
 * @param known previous choice
 * @param sentinels number of sentinels that were asked
 * @returns undefined if there is no answer that counts
 */
export function choosePrimary(
  answers: readonly SentinelAnswer[],
  known: SentinelAnswer | undefined,
  sentinels: number,
): SentinelAnswer | undefined {
  const ofMost = (some: readonly SentinelAnswer[]) =>
    some.find((one) => some.filter((other) => isSameServer(one, other)).length * 2 > sentinels);
  const sorted = answers.toSorted((one, other) => other.epoch - one.epoch);
  const [first] = sorted;
  if (!first) return undefined;
  const newest = sorted.filter(({ epoch }) => epoch === first.epoch);
  if (!known || first.epoch > known.epoch) return ofMost(newest) ?? first;
  if (first.epoch < known.epoch) return ofMost(sorted);
  return ofMost(newest) ?? newest.find((each) => isSameServer(each, known));
}

/** Returns whether two answers name the same server. */
export const isSameServer = (one: SentinelAnswer, other: SentinelAnswer) =>
  one.host === other.host && one.port === other.port;
