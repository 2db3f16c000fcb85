import { tmpdir } from 'node:os';
import { createNodeRedisClient, Queue } from 'bullmq';
import { createClient } from 'redis';
import { expect, test, vi } from 'vitest';
import { timingsWith } from '../../config/timings.ts';
import { Redis } from '../../src/store/redis.ts';
import { type OwnClocks, RedisClock } from '../../src/store/redis-clock.ts';
import { Meter } from '../../src/usage/meter.ts';
import { BULLMQ_PREFIX } from '../../src/store/keys.ts';
import { USAGE_QUEUE } from '../../src/usage/usage-queue.ts';
import { LastUsage } from '../../src/usage/last-usage.ts';
import { UsageReporter } from '../../src/usage/usage-reporter.ts';
import { readUsageWorkers, tellAlive } from '../../src/usage/usage-workers.ts';
import { openUsageWorker } from '../../workers/usage-jobs.ts';
import { runAccounts } from '../support/data-folder.ts';
import { eventually, silentLog as log } from '../support/gateway.ts';
import type { TestRedis } from '../support/redis.ts';
import { withTurnedClock } from '../support/turned-clock.ts';
import { ACCOUNT, count, KEEP_DAYS, LONGEST_STEP_MS, usageIn } from '../support/usage.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore, createAccount, cleanUps } = useStack();

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const timings = timingsWith({
  usage: { sweepEveryMs: 50, graceMs: 1, writeEveryMs: 20 },
  redis: { clockEveryMs: 20 },
  jobs: { lockMs: 1000 },
});
const { workerDeadAfterMs } = timings.usage;

const minuteAt = (wallMs: number) => new Date(wallMs).toISOString().slice(0, 16);

async function openClock(store: Redis, own?: OwnClocks) {
  const clock = await RedisClock.open(store, log, timings.redis, own);
  cleanUps.push(() => clock.close());
  return clock;
}

async function openWorker(redis: TestRedis, store: Redis, own?: OwnClocks) {
  const parts = { redis: store, clock: await openClock(store, own), log };
  const worker = await openUsageWorker({ url: redis.url }, parts, { keepDays: KEEP_DAYS, timings });
  cleanUps.push(() => worker.close());
}

const untilOpen = (usage: ReturnType<typeof usageIn>['usage'], minutes: string[]) =>
  eventually(`only ${minutes.join()} is open`, async () => {
    const open = await usage.listOpen(Date.now() + 400 * DAY_MS);
    return open.map(({ minute }) => minute).join() === minutes.join();
  });

test.each([-3 * DAY_MS, -HOUR_MS, HOUR_MS, 3 * DAY_MS])(
  'a worker whose clock is off by %i ms closes the minutes that are over by the clock of Redis, and says so',
  async (offMs) => {
    const redis = await openRedis();
    const store = await openStore(redis);
    const { usage } = usageIn(store);
    const now = minuteAt(Date.now() + MINUTE_MS / 2);
    const before = [2, 90].map((minutes) => minuteAt(Date.now() - minutes * MINUTE_MS));
    await usage.write([now, ...before].map((minute) => count({ minute })));
    const own = { wallMs: () => Date.now() + offMs, monotonicMs: () => performance.now() };
    await openWorker(redis, store, own);
    await untilOpen(usage, [now]);
    const { alive, maxOffsetMs } = await readUsageWorkers(store, workerDeadAfterMs);
    expect(alive).toBe(1);
    expect(Math.abs(maxOffsetMs - Math.abs(offMs))).toBeLessThan(1000);
  },
);

test('a worker that dies without a word is no longer counted after a time', async () => {
  const store = await openStore(await openRedis());
  await tellAlive(store, 'dead', 5000, 200);
  expect(await readUsageWorkers(store, 60_000)).toEqual({ alive: 1, maxOffsetMs: 5000 });
  await expect.poll(() => readUsageWorkers(store, 200)).toEqual({ alive: 0, maxOffsetMs: 0 });
});

test('a schedule and jobs that lie days ahead hold nothing up: a worker that starts does away with them', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const { usage } = usageIn(store);
  const client = createClient({ url: redis.url });
  cleanUps.push(() => client.destroy());
  const connection = createNodeRedisClient(client);
  const queue = new Queue(USAGE_QUEUE, { connection, prefix: BULLMQ_PREFIX });
  cleanUps.push(() => queue.close());
  const startDate = Date.now() + 3 * DAY_MS;
  await queue.upsertJobScheduler(
    'sweep',
    { every: MINUTE_MS, startDate },
    { name: 'sweep', data: { name: 'sweep' } },
  );
  const minute = '2026-11-21T08:13';
  await usage.write([count({ minute })]);
  // As a worker leaves it that failed to close the minute, and whose clock is ahead.
  await queue.add(
    'close',
    { name: 'close', accountId: ACCOUNT, minute },
    { jobId: `close-${ACCOUNT}-${minute.replace(':', '-')}`, delay: 3 * DAY_MS },
  );
  expect(await queue.getDelayedCount()).toBe(2);
  await openWorker(redis, store);
  await untilOpen(usage, []);
  await eventually('nothing is put off', async () => (await queue.getDelayedCount()) === 0);
  expect(await queue.getJobSchedulersCount()).toBe(0);
});

test('minutes that a clock wrote which was days ahead are closed as well', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const { usage } = usageIn(store);
  await usage.write([count({ minute: minuteAt(Date.now() + 3 * DAY_MS) })]);
  await openWorker(redis, store);
  await untilOpen(usage, []);
  expect(await usage.countOpen()).toMatchObject({ minutes: 0 });
});

test('while clocks jump, of Redis and of the gateway, every millisecond is billed once', async () => {
  const redis = await openRedis();
  const { store, jump } = withTurnedClock(await openStore(redis));
  const { usage, reader } = usageIn(store);
  let ownOffMs = 0;
  const own = { wallMs: () => Date.now() + ownOffMs, monotonicMs: () => performance.now() };
  const clock = await openClock(store, own);
  const meter = new Meter(clock, LONGEST_STEP_MS);
  const last = new LastUsage(usage, tmpdir(), log, timings.usage);
  const parts = { meter, store: usage, last, clock };
  const reporter = new UsageReporter(parts, log, () => {}, timings.usage);
  await openWorker(redis, store);
  const jumps = [HOUR_MS, -HOUR_MS, 3 * DAY_MS, -3 * DAY_MS, 40 * MINUTE_MS];
  const startMs = performance.now();
  const leave = meter.enter(ACCOUNT, 'a', 'websocket');
  for (const [index, jumpMs] of jumps.entries()) {
    jump(jumpMs);
    ownOffMs = -jumpMs;
    await eventually('the jump is seen', () => clock.jumps > index);
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  leave();
  const countedMs = performance.now() - startMs;
  await reporter.close();
  // The last minute is over.
  jump(2 * MINUTE_MS);
  await untilOpen(usage, []);
  const firstDay = minuteAt(Date.now() - DAY_MS);
  const range = { from: firstDay, to: minuteAt(Date.now() + 5 * DAY_MS) };
  let recordedMs = 0;
  for await (const some of reader.read(ACCOUNT, range, 'minute')) {
    for (const { websocketMs } of some) recordedMs += websocketMs;
  }
  // Each count is rounded to a millisecond.
  expect(Math.abs(recordedMs - countedMs)).toBeLessThan(30);
  const months = new Set([range.from, range.to].map((minute) => minute.slice(0, 7)));
  let billedMs = 0;
  for (const month of months) billedMs += await usage.readMonthMs(ACCOUNT, Date.parse(month));
  expect(billedMs).toBe(recordedMs);
});

test.each([-40 * DAY_MS, 40 * DAY_MS])(
  'accounts usage, on a machine whose clock is off by %i ms, reports this month by the clock of Redis, until now',
  async (offMs) => {
    const redis = await openRedis();
    const { id } = await createAccount(redis, 'free');
    const wallMs = Date.now();
    vi.useFakeTimers({ toFake: ['Date'], now: wallMs + offMs });
    cleanUps.push(() => void vi.useRealTimers());
    const ended = await runAccounts({ REDIS_URL: redis.url }, 'usage', String(id), '--json');
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    const { from, to } = JSON.parse(ended.stdout) as { from: string; to: string };
    expect(from).toBe(`${to.slice(0, 7)}-01T00:00:00.000Z`);
    expect(Date.parse(to)).toBeGreaterThan(wallMs - MINUTE_MS);
    expect(Date.parse(to)).toBeLessThan(wallMs + MINUTE_MS);
  },
);
