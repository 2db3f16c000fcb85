import Fastify from 'fastify';
import { readSettings } from '../config/settings.ts';
import { readTimings } from '../config/timings.ts';
import { Accounts } from '../src/accounts/accounts.ts';
import { redisAddressOf } from '../src/store/redis-server.ts';
import { RedisClock } from '../src/store/redis-clock.ts';
import { Redis } from '../src/store/redis.ts';
import { openUsageWorker } from './usage-jobs.ts';
import { openWebhookWorker } from './webhook-jobs.ts';

/** The usage worker, which sends webhooks as well: a process of its own, of which there may be any number. `npm start` runs one as well. */

const settings = readSettings(process.env);
const timings = readTimings(process.env);
const { log } = Fastify({ logger: { level: settings.LOG_LEVEL, name: 'usage' } });
const address = redisAddressOf(settings);
const redis = await Redis.connect(address, log, timings.redis);
const clock = await RedisClock.open(redis, log, timings.redis);
const worker = await openUsageWorker(
  address,
  { redis, clock, log },
  { keepDays: settings.USAGE_KEEP_DAYS, timings },
);
const webhooks = await openWebhookWorker(
  address,
  { redis, accounts: new Accounts(redis), log },
  timings,
);
log.info('usage worker started');

let isStopping = false;
async function stop(): Promise<void> {
  if (isStopping) process.exit(1);
  isStopping = true;
  // BullMQ would wait for ever for a Redis that is away.
  setTimeout(() => process.exit(1), timings.jobs.stopMs).unref();
  await Promise.all([worker.close(), webhooks.close()]);
  clock.close();
  await redis.close();
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop());
