import { USAGE_WORKER_OFFSETS, USAGE_WORKERS } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';

const KEYS = [USAGE_WORKERS, USAGE_WORKER_OFFSETS];
/** A worker that has not said for so long that it is alive is gone, ms. */
const ALIVE_MS = 35_000;

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/** ARGV: worker, by how many ms its clock is ahead. Those whose time lies ahead of Redis's are gone, too: its clock went back. */
const BEAT = `
${NOW}
for _, range in ipairs({ { '-inf', now - ${ALIVE_MS} }, { now + 1, '+inf' } }) do
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], range[1], range[2])) do
    redis.call('ZREM', KEYS[1], worker)
    redis.call('HDEL', KEYS[2], worker)
  end
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
`;

/** Returns by how many ms the clock of each worker that is alive is ahead. */
const READ = `
${NOW}
local offsets = {}
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now - ${ALIVE_MS}, now)) do
  offsets[#offsets + 1] = redis.call('HGET', KEYS[2], worker)
end
return offsets
`;

/** How many usage workers are alive, and the most by which the clock of one is off. */
export type UsageWorkers = { alive: number; maxOffsetMs: number };

/** A usage worker is alive, and its clock so far ahead of Redis's. @throws {PartylineError} `overloaded` */
export async function tellAlive(redis: Redis, worker: string, offsetMs: number): Promise<void> {
  const options = { keys: KEYS, arguments: [worker, String(Math.round(offsetMs))] };
  await redis.run((client) => client.eval(BEAT, options));
}

/** A usage worker has ended. @throws {PartylineError} `overloaded` */
export async function tellEnded(redis: Redis, worker: string): Promise<void> {
  const [workers, offsets] = KEYS as [string, string];
  await redis.run((client) => client.multi().zRem(workers, worker).hDel(offsets, worker).exec());
}

/** @throws {PartylineError} `overloaded` */
export async function readUsageWorkers(redis: Redis): Promise<UsageWorkers> {
  const offsets = (await redis.run((client) => client.eval(READ, { keys: KEYS }))) as string[];
  return {
    alive: offsets.length,
    maxOffsetMs: Math.max(0, ...offsets.map((offset) => Math.abs(Number(offset)))),
  };
}
