import { expect, test } from 'vitest';
import { timingsWith } from '../../config/timings.ts';
import { RedisClock } from '../../src/store/redis-clock.ts';
import { openUsageWorker } from '../../workers/usage-jobs.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { watchSlowness } from '../support/slowness.ts';
import { ACCOUNT, count, KEEP_DAYS, NOW_MS, usageIn } from '../support/usage.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore, cleanUps } = useStack();

const MINUTES = 240;
/** Maximum number of minutes that a worker closes at once. */
const AT_ONCE = 8;
const timings = timingsWith({ usage: { sweepEveryMs: 500 }, jobs: { lockMs: 500 } });

/** Opens a Redis that has begun to refuse writes with `error` while a worker closes minutes. */
async function openRefusing(error: 'NOREPLICAS' | 'READONLY') {
  const redis = await openRedis();
  const { store, usage, readRecords } = usageIn(await openStore(redis));
  const minutes = Array.from({ length: MINUTES }, (_, index) =>
    new Date(Date.UTC(2026, 10, 21, 0, index)).toISOString().slice(0, 16),
  );
  await usage.write(minutes.map((minute) => count({ minute })));
  const clock = await RedisClock.open(store, silentLog, timings.redis);
  cleanUps.push(() => clock.close());
  const closed = { times: 0 };
  let refusing: Promise<void> | undefined;
  const onStep = (step: string) => {
    if (step !== 'closed') return;
    closed.times += 1;
    refusing ??= redis.refuseWrites(error);
  };
  const parts = { redis: store, clock, log: silentLog };
  const options = { keepDays: KEEP_DAYS, timings, onStep };
  const worker = await openUsageWorker({ url: redis.url }, parts, options);
  cleanUps.push(() => worker.close());
  await eventually('the first minute is closed', () => refusing !== undefined);
  await refusing;
  const countOpen = async () => (await usage.listOpen(NOW_MS)).length;
  expect(await countOpen()).toBeGreaterThan(MINUTES / 2);
  return { redis, usage, readRecords, closed, worker, countOpen };
}

test.each(['NOREPLICAS', 'READONLY'] as const)(
  'while Redis refuses writes with %s, a worker that closes minutes asks about once a second; then it goes on',
  async (error) => {
    const { redis, usage, readRecords, closed, countOpen } = await openRefusing(error);
    const measureSlowness = await watchSlowness();
    const countJobCommands = () => redis.countCommands('evalsha', 'eval', 'bzpopmin');
    const before = await countJobCommands();
    await new Promise((resolve) => setTimeout(resolve, 3000));
    // Three for jobs, one for jobs of dead workers, and six sweeps.
    expect((await countJobCommands()) - before).toBeLessThan(30);

    await redis.acceptWrites();
    const acceptedMs = performance.now();
    await eventually('it goes on', async () => (await countOpen()) <= AT_ONCE);
    const tookMs = performance.now() - acceptedMs;
    expect(tookMs).toBeLessThan(2000 * (await measureSlowness()));
    // The minutes that were being closed are taken up again as those of a dead worker are.
    await eventually('all are closed', async () => (await countOpen()) === 0);
    expect(await usage.readMonthMs(ACCOUNT, NOW_MS)).toBe(MINUTES * 60_000);
    expect(await readRecords()).toHaveLength(MINUTES);
    expect(closed.times).toBeGreaterThanOrEqual(MINUTES);
    expect(closed.times).toBeLessThanOrEqual(MINUTES + AT_ONCE);
  },
);

test('a worker ends in time while Redis refuses writes', async () => {
  const { redis, worker } = await openRefusing('NOREPLICAS');
  const startMs = performance.now();
  await worker.close();
  expect(performance.now() - startMs).toBeLessThan(timings.jobs.stopMs);
  const countJobCommands = () => redis.countCommands('evalsha', 'eval', 'bzpopmin');
  const before = await countJobCommands();
  await new Promise((resolve) => setTimeout(resolve, 1.5 * timings.jobs.retryAfterMs));
  expect(await countJobCommands()).toBe(before);
});
