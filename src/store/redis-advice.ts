import type { FastifyBaseLogger } from 'fastify';
import { ErrorReply } from 'redis';
import type { Redis } from './redis.ts';

const SETTINGS = ['maxmemory-policy', 'appendonly'];

/** Returns what is wrong with settings of a Redis that holds accounts and minutes, one sentence each; pure. */
export function redisAdvice(settings: Record<string, string>): string[] {
  const { 'maxmemory-policy': policy = 'noeviction', appendonly = 'yes' } = settings;
  const advice: string[] = [];
  if (policy !== 'noeviction') {
    advice.push(`maxmemory-policy is ${policy}: a full Redis would drop minutes; set noeviction`);
  }
  if (appendonly !== 'yes') {
    advice.push('appendonly is no: a Redis that ends loses what it knew; set yes');
  }
  return advice;
}

/**
 * Logs what is wrong with the settings of an operator's Redis.
 * @throws {PartylineError} `overloaded` if it is away
 */
export async function adviseOnRedis(redis: Redis, log: FastifyBaseLogger): Promise<void> {
  const settings = await redis.run(async (client) => {
    try {
      return await client.configGet(SETTINGS);
    } catch (fault) {
      if (fault instanceof ErrorReply) return undefined;
      throw fault;
    }
  });
  if (!settings) log.info({ settings: SETTINGS }, 'redis settings cannot be read; check them');
  for (const advice of redisAdvice(settings ?? {})) log.warn(`redis: ${advice}`);
}
