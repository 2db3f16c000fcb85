import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Fastify from 'fastify';
import { DEFAULT_TIMINGS } from '../config/timings.ts';
import { openRedis } from '../src/store/open-redis.ts';

/**
 * Starts a Redis with a temporary data folder.
 * @param opened stops Redis and removes the folder when it is disposed
 * @returns its URL
 */
export async function openOwnRedis(opened: AsyncDisposableStack): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'partyline-bench-'));
  opened.defer(() => rm(dataDir, { recursive: true, force: true }));
  const { url } = await openRedis({
    settings: { REDIS_URL: '', DATA_DIR: dataDir },
    timings: DEFAULT_TIMINGS.redis,
    opened,
    log: Fastify().log,
  });
  return url;
}
