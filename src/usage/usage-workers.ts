import { USAGE_WORKER_OFFSETS, USAGE_WORKERS } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';

const KEYS = [USAGE_WORKERS, USAGE_WORKER_OFFSETS];
/** Time without a sign of life after which a worker counts as gone, ms. */
const ALIVE_MS = 35_000;

/** Number of living usage workers, and the largest deviation of one's clock. */
export type UsageWorkers = { alive: number; maxOffsetMs: number };

/** Notes that a usage worker lives, and the lead of its clock over Redis's. @throws {PartylineError} `overloaded` */
export async function tellAlive(redis: Redis, worker: string, offsetMs: number): Promise<void> {
  const options = {
    keys: KEYS,
    arguments: [worker, String(Math.round(offsetMs)), String(ALIVE_MS)],
  };
  await redis.run((client) => client.beatUsageWorker(options));
}

/** Notes that a usage worker has ended. @throws {PartylineError} `overloaded` */
export async function tellEnded(redis: Redis, worker: string): Promise<void> {
  const [workers, offsets] = KEYS as [string, string];
  await redis.run((client) => client.multi().zRem(workers, worker).hDel(offsets, worker).exec());
}

/** @throws {PartylineError} `overloaded` */
export async function readUsageWorkers(redis: Redis): Promise<UsageWorkers> {
  const options = { keys: KEYS, arguments: [String(ALIVE_MS)] };
  const reply = await redis.run((client) => client.readUsageWorkerOffsets(options));
  const offsets = reply as string[];
  return {
    alive: offsets.length,
    maxOffsetMs: Math.max(0, ...offsets.map((offset) => Math.abs(Number(offset)))),
  };
}
