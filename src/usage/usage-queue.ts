import { KEY_PREFIX, type Redis } from '../store/redis.ts';

/** BullMQ's queue of minutes that are to be closed. */
export const USAGE_QUEUE = { name: 'usage', prefix: `${KEY_PREFIX}bullmq` } as const;

/**
 * How many jobs wait for a usage worker.
 * @throws {PartylineError} `overloaded` when Redis does not answer
 */
export function countWaitingJobs(redis: Redis): Promise<number> {
  return redis.run((client) => client.lLen(`${USAGE_QUEUE.prefix}:${USAGE_QUEUE.name}:wait`));
}
