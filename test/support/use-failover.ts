import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { redisAddressOf } from '../../src/store/open-redis.ts';
import { Redis } from '../../src/store/redis.ts';
import type { TestClient } from './client.ts';
import { type FailoverOptions, FailoverRedis } from './failover.ts';
import { silentLog } from './gateway.ts';
import { GatewayProcess } from './process.ts';
import { keepPlaying, opusTone } from './sound.ts';
import { awakeMs } from './machine-stalls.ts';

/** A gateway as its clients know it. */
type Address = { url: string; apiKey: string };

/** A Redis that fails over, and gateways on it. @param cleanUps what is to be done after the test, in the reverse order */
export function useFailover(cleanUps: (() => Promise<void> | void)[]) {
  const startRedis = async (options: FailoverOptions): Promise<FailoverRedis> => {
    const redis = await FailoverRedis.start(options);
    cleanUps.push(() => redis.close());
    return redis;
  };
  const startGateway = async (
    environment: Record<string, string>,
    commandBefore: string[] = [],
  ): Promise<GatewayProcess> => {
    const settings = { USAGE_WORKERS: '0', ...environment };
    const process = await GatewayProcess.start(settings, undefined, commandBefore);
    cleanUps.push(() => process.dispose());
    return process;
  };
  const openStore = async (redis: FailoverRedis): Promise<Redis> => {
    const address = redisAddressOf({ ...redis.environment, DATA_DIR: '' });
    const store = await Redis.connect(address, silentLog, DEFAULT_TIMINGS.redis);
    cleanUps.push(() => store.close());
    return store;
  };
  /** A client speaks for as long as the test lasts. */
  const speak = async (client: TestClient, frequencyHz: number): Promise<void> => {
    const playing = keepPlaying(client, await opusTone(frequencyHz, 0.3, 2000));
    cleanUps.push(() => playing.close());
  };
  return { startRedis, startGateway, openStore, speak };
}

/** Figures of an account as it sees them itself. */
export async function summaryOf({ url, apiKey }: Address) {
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await fetch(`${url}/api/me`, { headers });
  const { summary } = (await response.json()) as {
    summary: { current_ccu: number; max_ccu: number; total_minutes: number };
  };
  return summary;
}

/** Measures the time between two frames from now on, without that in which this process was kept from its work. @returns tells the longest, ms */
export function longestGap(client: TestClient): () => number {
  let lastMs = awakeMs();
  let longestMs = 0;
  const look = () => {
    const nowMs = awakeMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  };
  client.onFrame = look;
  return () => {
    look();
    return longestMs;
  };
}
