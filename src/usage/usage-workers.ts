import { USAGE_WORKER_OFFSETS, USAGE_WORKERS } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';

const KEYS = [USAGE_WORKERS, USAGE_WORKER_OFFSETS];

/** Number of living usage workers, and the largest deviation of one's clock. */
export type UsageWorkers = { alive: number; maxOffsetMs: number };

/**
 * Notes that a usage worker lives, and the lead of its clock over Redis's.
 * @param deadAfterMs silence after which workers count as gone, ms
 * @throws {PartylineError} `overloaded`
 */
export async function tellAlive(
  redis: Redis,
  worker: string,
  offsetMs: number,
  deadAfterMs: number,
): Promise<void> {
  const options = {
    keys: KEYS,
    arguments: [worker, String(Math.round(offsetMs)), String(deadAfterMs)],
  };
  await redis.run((client) => client.beatUsageWorker(options));
}

/** Notes that a usage worker has ended. @throws {PartylineError} `overloaded` */
export async function tellEnded(redis: Redis, worker: string): Promise<void> {
  const [workers, offsets] = KEYS as [string, string];
  await redis.run((client) => client.multi().zRem(workers, worker).hDel(offsets, worker).exec());
}

/** @param deadAfterMs silence after which a worker counts as gone, ms @throws {PartylineError} `overloaded` */
export async function readUsageWorkers(redis: Redis, deadAfterMs: number): Promise<UsageWorkers> {
  const options = { keys: KEYS, arguments: [String(deadAfterMs)] };
  const reply = await redis.run((client) => client.readUsageWorkerOffsets(options));
  const offsets = reply as string[];
  return {
    alive: offsets.length,
    maxOffsetMs: Math.max(0, ...offsets.map((offset) => Math.abs(Number(offset)))),
  };
}
