import Fastify from 'fastify';
import { readSettings } from '../config/settings.ts';
import { Accounts } from '../src/accounts/accounts.ts';
import { redisAddressOf } from '../src/store/redis-server.ts';
import { Redis } from '../src/store/redis.ts';
import { UsageStore } from '../src/usage/usage-store.ts';
import { openUsageWorker } from './usage-jobs.ts';
import { openWebhookWorker } from './webhook-jobs.ts';

/** The usage worker, which sends webhooks as well: a process of its own, of which there may be any number. `npm start` runs one as well. */

const settings = readSettings(process.env);
const { log } = Fastify({ logger: { level: settings.LOG_LEVEL, name: 'usage' } });
const address = redisAddressOf(settings);
const redis = await Redis.connect(address, log);
const worker = await openUsageWorker(address, new UsageStore(redis), log, {
  keepDays: settings.USAGE_KEEP_DAYS,
});
const webhooks = await openWebhookWorker(address, { redis, accounts: new Accounts(redis), log });
log.info('usage worker started');

/** What a job in hand may take; BullMQ would wait for a Redis that is away for ever. */
const STOP_TIMEOUT_MS = 8000;

let isStopping = false;
async function stop(): Promise<void> {
  if (isStopping) process.exit(1);
  isStopping = true;
  setTimeout(() => process.exit(1), STOP_TIMEOUT_MS).unref();
  await Promise.all([worker.close(), webhooks.close()]);
  await redis.close();
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop());
