import { waitingJobsKey } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';

/** The queue of minutes to close. */
export const USAGE_QUEUE = 'usage';

/**
 * Returns the number of jobs that wait for a usage worker.
 * @throws {PartylineError} `overloaded` when Redis does not answer
 */
export function countWaitingJobs(redis: Redis): Promise<number> {
  return redis.run((client) => client.lLen(waitingJobsKey(USAGE_QUEUE)));
}
