import { timingsWith } from '../../config/timings.ts';
import { Redis } from '../../src/store/redis.ts';
import { RedisClock } from '../../src/store/redis-clock.ts';
import { openUsageWorker, type UsageStep } from '../../workers/usage-jobs.ts';
import { silentLog } from './gateway.ts';

/** A usage worker that kills itself at a step of its work: `node … URL STEP`. */
const [url = '', dieAt] = process.argv.slice(2);
const address = { url };
const timings = timingsWith({ usage: { sweepEveryMs: 200 }, jobs: { lockMs: 500 } });
const redis = await Redis.connect(address, silentLog, timings.redis);
const clock = await RedisClock.open(redis, silentLog, timings.redis);
const parts = { redis, clock, log: silentLog };
await openUsageWorker(address, parts, {
  keepDays: 1,
  timings,
  onStep: (step: UsageStep) => {
    if (step === dieAt) process.kill(process.pid, 'SIGKILL');
  },
});
