import { timingsWith } from '../../config/timings.ts';
import { Accounts } from '../../src/accounts/accounts.ts';
import { RedisClock } from '../../src/store/redis-clock.ts';
import { Redis } from '../../src/store/redis.ts';
import { openWebhookWorker } from '../../workers/webhook-jobs.ts';
import { silentLog as log } from './gateway.ts';

/** A webhook worker in a process of its own, that may be killed: `node … URL`. */
const [url = ''] = process.argv.slice(2);
const timings = timingsWith({ webhooks: { firstRetryMs: 100 }, jobs: { lockMs: 500 } });
const redis = await Redis.connect({ url }, log, timings.redis);
const clock = await RedisClock.open(redis, log, timings.redis);
const parts = { redis, accounts: new Accounts(redis), clock, log };
await openWebhookWorker(parts, { keepMs: 86_400_000, maxEvents: 10_000 }, timings);
