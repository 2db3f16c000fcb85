import type { SentinelAnswer } from './sentinel.ts';

/**
 * Chooses among the answers of sentinels: the newest counts. One that is no newer than what is known, and names another
 * server, counts only if most of all sentinels name that: it comes from a sentinel that was cut off during a failover, or is
 * about to tell of one, unless all were set up anew. Pure.
 * @param known what was chosen before
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
