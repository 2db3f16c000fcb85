import type { FastifyBaseLogger } from 'fastify';
import { ErrorReply } from 'redis';
import type { Redis } from './redis.ts';
import type { SentinelAnswer } from './sentinel.ts';

const SETTINGS = ['maxmemory-policy', 'appendonly', 'min-replicas-to-write'];
/** Maximum `down-after-milliseconds` with which new clients are admitted again within 15 s of the end of a primary, ms. */
const LONGEST_DOWN_AFTER_MS = 10_000;

/**
 * Returns advice on the settings of a Redis that holds accounts and minutes, one sentence each; pure.
 * @param watched state reported by its sentinels, if it has any
 */
export function redisAdvice(
  settings: Record<string, string>,
  watched?: Pick<SentinelAnswer, 'downAfterMs'>,
): string[] {
  const {
    'maxmemory-policy': policy = 'noeviction',
    appendonly = 'yes',
    'min-replicas-to-write': minReplicas = '1',
  } = settings;
  const advice: string[] = [];
  if (policy !== 'noeviction') {
    advice.push(`maxmemory-policy is ${policy}: a full Redis would drop minutes; set noeviction`);
  }
  if (appendonly !== 'yes') {
    // Only a running Redis writes what it holds into a new file; one that starts with the setting
    // reads no snapshot.
    advice.push(
      'appendonly is no: a Redis that ends loses what it wrote since its last snapshot, if it makes any; run `redis-cli CONFIG SET appendonly yes` while it runs, wait until its file is written (docs/operations/install.md#redis), then set the same in redis.conf; a restart before that begins empty',
    );
  }
  if (watched && minReplicas === '0') {
    advice.push(
      'min-replicas-to-write is 0: a primary that is cut off takes writes that a failover drops; set 1',
    );
  }
  if (watched && watched.downAfterMs > LONGEST_DOWN_AFTER_MS) {
    const { downAfterMs } = watched;
    advice.push(
      `down-after-milliseconds of its sentinels is ${downAfterMs}: new clients are refused for that time when the primary fails; set 5000`,
    );
  }
  return advice;
}

/**
 * Logs advice on the settings of an operator's Redis.
 * @throws {PartylineError} `overloaded` if it is disconnected
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
  for (const advice of redisAdvice(settings ?? {}, redis.watched)) log.warn(`redis: ${advice}`);
}
