import { openRedis, redisAddressOf } from '../store/open-redis.ts';
import { Redis } from '../store/redis.ts';
import { adviseOnRedis } from '../store/redis-advice.ts';
import { RedisClock } from '../store/redis-clock.ts';
import { requireVersion } from '../store/redis-version.ts';
import { claimFormat } from '../store/state-format.ts';
import type { Opening } from './opening.ts';

export type Store = { redis: Redis; clock: RedisClock };

/**
 * Opens the connection to Redis, after starting a Redis if none is configured, and the clock that all nodes share.
 * @throws {Error} if Redis cannot be used
 */
export async function openStore(opening: Opening): Promise<Store> {
  const { settings, log, opened, abort } = opening;
  const timings = opening.timings.redis;
  const { url, server } = await openRedis({ settings, timings, opened, log, abort });
  const address = redisAddressOf({ ...settings, REDIS_URL: url });
  const redis = opened.adopt(await Redis.connect(address, log, timings, { abort }), (part) =>
    part.close(),
  );
  server?.trustRepliesOf(() => redis.replies);
  // These checks come before anything is written.
  await requireVersion(redis);
  await claimFormat(redis, opening.timings.nodes.deadAfterMs);
  if (redis.ownDataDir === undefined) await adviseOnRedis(redis, log);
  const clock = opened.adopt(await RedisClock.open(redis, log, timings), (part) => part.close());
  return { redis, clock };
}
