import { KEY_PREFIX, type Redis } from '../store/redis.ts';

/** The keys of BullMQ's queues begin so. */
export const BULLMQ_PREFIX = `${KEY_PREFIX}bullmq`;
/** The queue of minutes that are to be closed. */
export const USAGE_QUEUE = 'usage';

/**
 * How many jobs wait for a usage worker.
 * @throws {PartylineError} `overloaded` when Redis does not answer
 */
export function countWaitingJobs(redis: Redis): Promise<number> {
  return redis.run((client) => client.lLen(`${BULLMQ_PREFIX}:${USAGE_QUEUE}:wait`));
}
