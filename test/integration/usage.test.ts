import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { type AddressInfo, connect as connectTcp, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type TimingOverrides, timingsWith } from '../../config/timings.ts';
import { Meter } from '../../src/usage/meter.ts';
import { Quota } from '../../src/usage/quota.ts';
import { reportUsage } from '../../src/usage/report.ts';
import { UsageStore } from '../../src/usage/usage-store.ts';
import { openUsageWorker, type UsageStep } from '../../workers/usage-jobs.ts';
import { RedisClock } from '../../src/store/redis-clock.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { TestProxy } from '../support/proxy.ts';
import type { TestRedis } from '../support/redis.ts';
import {
  ACCOUNT,
  collectReport,
  count,
  KEEP_DAYS,
  LONGEST_STEP_MS,
  NOW_MS,
  usageIn,
} from '../support/usage.ts';
import { useStack } from '../support/use-stack.ts';

const stack = useStack();
const { openRedis, openGateway, openStore, createAccount, connect, enter, cleanUps } = stack;

async function openUsage() {
  const redis = await openRedis();
  return { redis, ...usageIn(await openStore(redis)) };
}

describe('UsageStore', () => {
  test('a written record counts at once, and once: written again it replaces, closed again it adds nothing', async () => {
    const { usage, close, monthMs } = await openUsage();
    await usage.write([count({ websocketMs: 20_000 })]);
    expect(await monthMs()).toBe(20_000);
    await usage.write([count({ websocketMs: 60_000 }), count({ writer: 'node-2', webrtcMs: 1 })]);
    await usage.write([count({ websocketMs: 60_000 })]);
    expect(await monthMs()).toBe(120_001);
    await Promise.all([close(), close(), close()]);
    expect(await monthMs()).toBe(120_001);
    expect(await usage.listOpen(NOW_MS)).toEqual([]);
  });

  test('a record that is written after its minute was closed is added when it is closed again', async () => {
    const { usage, close, readRecords, monthMs } = await openUsage();
    await usage.write([count({})]);
    await close();
    await usage.write([count({ writer: 'node-2', websocketMs: 5000 })]);
    expect(await monthMs()).toBe(65_000);
    expect(await usage.listOpen(NOW_MS)).toEqual([
      { accountId: ACCOUNT, minute: '2026-11-21T08:13' },
    ]);
    await close();
    expect(await monthMs()).toBe(65_000);
    expect(await readRecords()).toEqual([
      { start: '2026-11-21T08:13', room: 'a', websocketMs: 65_000, webrtcMs: 0, peakPeers: 1 },
    ]);
  });

  test('the turn of the month: each month has its own, and the new one begins at 0', async () => {
    const { usage, close } = await openUsage();
    await usage.write([
      count({ minute: '2028-02-29T23:59', websocketMs: 1000 }),
      count({ minute: '2028-03-01T00:00', websocketMs: 2000 }),
    ]);
    const both = () =>
      Promise.all([
        usage.readMonthMs(ACCOUNT, Date.UTC(2028, 1, 29)),
        usage.readMonthMs(ACCOUNT, Date.UTC(2028, 2, 1)),
      ]);
    expect(await both()).toEqual([1000, 2000]);
    await close('2028-02-29T23:59');
    await close('2028-03-01T00:00');
    expect(await both()).toEqual([1000, 2000]);
    expect(await usage.readMonthMs(ACCOUNT, Date.UTC(2028, 3, 1))).toBe(0);
  });

  test('the record of a minute is kept for as long as it is said, and the sum of the month for good', async () => {
    const { redis, usage, close } = await openUsage();
    await usage.write([count({})]);
    await close();
    const store = await openStore(redis);
    const ttlS = (key: string) => store.run((client) => client.ttl(`partyline:usage:${key}`));
    const recordTtlS = await ttlS(`records:${ACCOUNT}:2026-11-21`);
    expect(recordTtlS).toBeGreaterThan(KEEP_DAYS * 86_400 - 60);
    expect(recordTtlS).toBeLessThanOrEqual(KEEP_DAYS * 86_400);
    expect(await ttlS(`months:${ACCOUNT}`)).toBe(-1);
  });

  test('room names of any kind come back as they were', async () => {
    const { usage, close, readRecords } = await openUsage();
    const rooms = ['a|b', '=', 'día "1"', '房间', '08:13|x'];
    await usage.write(rooms.map((room) => count({ room })));
    const names = async () => (await readRecords()).map(({ room }) => room);
    expect(new Set(await names())).toEqual(new Set(rooms));
    await close();
    expect(new Set(await names())).toEqual(new Set(rooms));
  });
});

describe('reportUsage()', () => {
  test.each(['minute', 'hour', 'day'] as const)(
    'by %s: closed and open minutes together make the sum of the month',
    async (granularity) => {
      const { usage, reader, close, monthMs } = await openUsage();
      for (let minute = 10; minute < 20; minute += 1) {
        await usage.write([
          count({ minute: `2026-11-21T08:${minute}`, peakPeers: minute }),
          count({ minute: `2026-11-20T23:${minute}`, room: 'b', webrtcMs: 500 }),
        ]);
        if (minute % 2 === 0) await close(`2026-11-21T08:${minute}`);
      }
      const query = { from: '2026-11-01', to: '2026-11-21T08:30Z', granularity };
      const report = await collectReport(reportUsage(reader, ACCOUNT, query, NOW_MS));
      expect(report.records.length).toBe(granularity === 'minute' ? 20 : 2);
      expect(report.total_seconds * 1000).toBe(await monthMs());
      const sum = report.records.reduce(
        (total, record) => total + record.websocket_seconds + record.webrtc_seconds,
        0,
      );
      expect(sum).toBeCloseTo(report.total_seconds, 6);
      expect(report.records.at(-1)?.peak_peers).toBe(19);
    },
  );
});

describe('usage workers', () => {
  const timings = timingsWith({ usage: { sweepEveryMs: 200 }, jobs: { lockMs: 500 } });
  const MINUTES = 20;

  async function writeMinutes(usage: UsageStore): Promise<void> {
    const counts = Array.from({ length: MINUTES }, (_, index) =>
      count({ minute: `2026-11-21T07:${10 + index}` }),
    );
    await usage.write(counts);
  }

  const optionsWith = (redis: TimingOverrides['redis'] = {}) => ({
    keepDays: KEEP_DAYS,
    timings: { ...timings, redis: { ...timings.redis, ...redis } },
  });

  async function partsFor(redis: TestRedis, redisTimings: TimingOverrides['redis'] = {}) {
    const store = await openStore(redis, redisTimings);
    const clock = await RedisClock.open(store, silentLog, timings.redis);
    cleanUps.push(() => clock.close());
    return { redis: store, clock, log: silentLog };
  }

  async function startWorker(redis: TestRedis, redisTimings: TimingOverrides['redis'] = {}) {
    const parts = await partsFor(redis, redisTimings);
    const worker = await openUsageWorker({ url: redis.url }, parts, optionsWith(redisTimings));
    cleanUps.push(() => worker.close());
  }

  async function untilAllClosed({
    usage,
    readRecords,
  }: Awaited<ReturnType<typeof openUsage>>): Promise<{ monthMs: number; records: number }> {
    const isDone = async () => (await usage.listOpen(NOW_MS)).length === 0;
    await eventually('all minutes are closed', isDone);
    const monthMs = await usage.readMonthMs(ACCOUNT, NOW_MS);
    return { monthMs, records: (await readRecords()).length };
  }
  const ALL = { monthMs: MINUTES * 60_000, records: MINUTES };

  test('three of them share the work, and count everything once', async () => {
    const opened = await openUsage();
    await writeMinutes(opened.usage);
    await Promise.all([1, 2, 3].map(() => startWorker(opened.redis)));
    expect(await untilAllClosed(opened)).toEqual(ALL);
  });

  test.each([1, 2, 3])(
    'one whose connection %i of 3 is cut before it is ready says so, and lets others run',
    async (cutAt) => {
      const { redis } = await openUsage();
      const { port } = new URL(redis.url);
      // BullMQ asks each connection for its version, and it is cut as it does.
      let asked = 0;
      const proxy = createServer((client) => {
        const server = connectTcp(Number(port));
        for (const socket of [client, server]) socket.on('error', () => socket.destroy());
        client.on('data', (chunk: Buffer) => {
          if (/\$4\r\ninfo/i.test(chunk.toString())) asked += 1;
          if (asked === cutAt) client.resetAndDestroy();
          else server.write(chunk);
        });
        server.pipe(client);
      }).listen(0);
      cleanUps.push(() => void proxy.close());
      const url = `redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
      const opening = openUsageWorker({ url }, await partsFor(redis), optionsWith());
      await expect(opening).rejects.toThrow(/reset|closed/i);
    },
  );

  test.each<UsageStep>(['swept', 'queued', 'before close', 'closed'])(
    'one that is killed when it has "%s": another one does what is left, once',
    async (step) => {
      const opened = await openUsage();
      const { redis, usage } = opened;
      await writeMinutes(usage);
      const program = fileURLToPath(new URL('../support/dying-usage-worker.ts', import.meta.url));
      const dying = spawn(process.execPath, [program, redis.url, step], { stdio: 'inherit' });
      cleanUps.push(() => void dying.kill('SIGKILL'));
      const [, signal] = (await once(dying, 'exit')) as [number | null, string | null];
      expect(signal).toBe('SIGKILL');
      await startWorker(redis);
      expect(await untilAllClosed(opened)).toEqual(ALL);
    },
  );

  /** Writes the minutes, if Redis is there. */
  async function takesMinutes(usage: UsageStore): Promise<boolean> {
    try {
      await writeMinutes(usage);
      return true;
    } catch {
      return false;
    }
  }

  test.each(['hangs', 'is killed'] as const)(
    'Redis %s and comes back: the worker goes on',
    async (what) => {
      const opened = await openUsage();
      const { redis, usage } = opened;
      const commandTimeoutMs = 1000;
      await startWorker(redis, { commandTimeoutMs, longestReconnectMs: 100 });
      if (what === 'hangs') redis.hang();
      else await redis.kill();
      // Longer than a lock, and than a command may take: neither can be seen from here.
      const { lockMs } = timings.jobs;
      await new Promise((resolve) => setTimeout(resolve, lockMs + commandTimeoutMs));
      if (what === 'hangs') redis.goOn();
      else await redis.restart();
      await eventually('the store takes minutes', () => takesMinutes(usage));
      expect(await untilAllClosed(opened)).toEqual(ALL);
    },
  );

  test.each(['after', 'before'] as const)(
    'the connections of its queue are dead, as nobody says, since %s their first answer: it goes on over new ones',
    async (since) => {
      const opened = await openUsage();
      const proxy = await TestProxy.open(opened.redis.url);
      cleanUps.push(() => proxy.close());
      const parts = await partsFor(opened.redis);
      const options = optionsWith({ askEveryMs: 100 });
      options.timings.jobs = { ...timings.jobs, silentMs: 1500 };
      const url = proxy.url.replace('http:', 'redis:');
      const worker = await openUsageWorker({ url }, parts, options);
      cleanUps.push(() => worker.close());
      const { accepted, open } = proxy.connections;
      proxy.silence();
      if (since === 'before') {
        proxy.cut();
        proxy.leadTo(opened.redis.url);
        await eventually('all connect', () => proxy.connections.accepted >= accepted + open);
      }
      proxy.speak();
      await writeMinutes(opened.usage);
      expect(await untilAllClosed(opened)).toEqual(ALL);
    },
  );
});

/** Usage is written five times a second. */
const QUICK_WRITES = { usage: { writeEveryMs: 200 } };

describe('the minutes of a gateway', () => {
  const meOf = async (url: string, apiKey: string) => {
    const response = await fetch(`${url}/api/me`, {
      headers: { authorization: `Bearer ${apiKey}` },
    });
    return (await response.json()) as { summary: { total_minutes: number } };
  };
  const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  test('two peers in rooms count to the second, the lobby costs nothing; /api/usage has the same sum', async () => {
    const gateway = await openGateway({}, QUICK_WRITES);
    await connect(gateway, { room: '__lobby__', peer: 'idle' });
    const startMs = performance.now();
    const alice = await enter(gateway, 'alice');
    const bob = await enter(gateway, 'bob', { room: 'b' });
    await sleep(1000);
    await Promise.all([alice.close(), bob.close()]);
    const mostS = (2 * (performance.now() - startMs)) / 1000;
    const headers = { authorization: `Bearer ${gateway.apiKey}` };
    const usageOf = async () => {
      const response = await fetch(`${gateway.url}/api/usage?granularity=minute`, { headers });
      return (await response.json()) as { total_seconds: number; records: { room: string }[] };
    };
    // Two peers for a second; what is written in the middle of the call is less.
    await eventually('it is written', async () => (await usageOf()).total_seconds > 1.95);
    const { total_seconds: totalS, records } = await usageOf();
    expect(totalS).toBeLessThanOrEqual(mostS);
    expect(new Set(records.map(({ room }) => room))).toEqual(new Set(['a', 'b']));
    // The last tenths may be written between two questions.
    await expect
      .poll(async () => {
        const { summary } = await meOf(gateway.url, gateway.apiKey);
        return Math.abs(summary.total_minutes - (await usageOf()).total_seconds / 60);
      })
      .toBeLessThan(0.0051);
  });

  test('a gateway that is killed in the middle of a minute loses at most what it had not written yet, and adds nothing', async () => {
    const redis = await openRedis();
    const writeEveryMs = 500;
    const doomed = await GatewayProcess.start({
      REDIS_URL: redis.url,
      USAGE_WORKERS: '0',
      ...timingsOf({ usage: { writeEveryMs } }),
    });
    cleanUps.push(() => doomed.dispose());
    const { url, api_key: apiKey, account_id: accountId } = await doomed.ready();
    const joiningMs = performance.now();
    await enter({ url, apiKey }, 'alice');
    await enter({ url, apiKey }, 'bob');
    const usage = new UsageStore(await openStore(redis));
    let writtenMs = 0;
    await eventually('both are written', async () => {
      writtenMs = await usage.readMonthMs(accountId, Date.now());
      return writtenMs >= 2 * writeEveryMs;
    });
    doomed.child.kill('SIGKILL');
    const mostMs = performance.now() - joiningMs;
    await doomed.exited;
    const countedMs = await usage.readMonthMs(accountId, Date.now());
    expect(countedMs).toBeLessThanOrEqual(2 * mostMs);
    expect(countedMs).toBeGreaterThanOrEqual(writtenMs);
  });

  test('Redis is away for many writes in the middle of a call: nothing is lost, and nothing counted twice', async () => {
    const redis = await openRedis();
    const gateway = await openGateway(
      { REDIS_URL: redis.url },
      { ...QUICK_WRITES, redis: { commandTimeoutMs: 1000 } },
    );
    const { apiKey, id } = await createAccount(redis, 'starter');
    const joiningMs = performance.now();
    const alice = await enter(gateway, 'alice', { api_key: apiKey });
    const joinedMs = performance.now();
    const write = vi.spyOn(UsageStore.prototype, 'write');
    onTestFinished(() => write.mockRestore());
    const writes = (wanted: string) =>
      write.mock.settledResults.filter(({ type }) => type === wanted).length;
    await eventually('some of it is written', () => writes('fulfilled') >= 2);
    redis.hang();
    await eventually('many writes have failed', () => writes('rejected') >= 3);
    redis.goOn();
    const written = writes('fulfilled');
    await eventually('it is written again', () => writes('fulfilled') > written);
    const leastMs = performance.now() - joinedMs;
    await alice.close();
    const mostMs = performance.now() - joiningMs;
    const usage = new UsageStore(await openStore(redis));
    const isWritten = async () => (await usage.readMonthMs(id, Date.now())) >= leastMs;
    await eventually('all of it is written', isWritten);
    expect(await usage.readMonthMs(id, Date.now())).toBeLessThanOrEqual(mostMs);
  });

  test('a gateway that ends while Redis is away leaves its minutes to the next start', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'partyline-left-usage-'));
    cleanUps.push(() => rm(dataDir, { recursive: true }));
    const redis = await openRedis();
    const environment = { REDIS_URL: redis.url, DATA_DIR: dataDir };
    const timings = { usage: { writeEveryMs: 600_000 } };
    const gateway = await openGateway(environment, timings);
    const { apiKey, id } = await createAccount(redis, 'starter');
    const joiningMs = performance.now();
    await enter(gateway, 'alice', { api_key: apiKey });
    const joinedMs = performance.now();
    await sleep(300);
    const leastMs = performance.now() - joinedMs;
    await redis.kill();
    await gateway.close();
    const mostMs = performance.now() - joiningMs;
    const leftFiles = async () =>
      (await readdir(dataDir)).filter((name) => name.startsWith('unwritten-usage-'));
    expect(await leftFiles()).toHaveLength(1);
    await redis.restart();
    await openGateway(environment, timings);
    expect(await leftFiles()).toEqual([]);
    const writtenMs = await new UsageStore(await openStore(redis)).readMonthMs(id, Date.now());
    expect(writtenMs).toBeGreaterThanOrEqual(Math.floor(leastMs));
    expect(writtenMs).toBeLessThanOrEqual(mostMs);
  });
});

describe('quota', () => {
  const PLAN_MS = 100 * 60_000;
  const minute = new Date().toISOString().slice(0, 16);
  const used = (accountId: number, ms: number) =>
    count({ accountId, minute, room: 'before', websocketMs: ms });

  test('at 20 %, 5 % and 1 minute left all are warned; at 0 who is in a room goes, the lobby stays', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url }, QUICK_WRITES);
    const { apiKey, id } = await createAccount(redis, 'free');
    const usage = new UsageStore(await openStore(redis));
    const talking = await enter(gateway, 'talking', { api_key: apiKey });
    const idle = await connect(gateway, { peer: 'idle', room: '__lobby__', api_key: apiKey });
    for (const [usedMinutes, most] of [
      [85, 15],
      [96, 4],
      [99.5, 0.5],
    ] as const) {
      const from = talking.messages.length;
      await usage.write([used(id, usedMinutes * 60_000)]);
      const warning = await talking.next('quota_warning', from);
      expect(warning.remaining_minutes).toBeLessThanOrEqual(most);
      expect(warning.remaining_minutes).toBeGreaterThan(most - 1);
      expect(new Date(warning.resets_at).getUTCDate()).toBe(1);
    }
    await usage.write([used(id, PLAN_MS)]);
    expect(await talking.next('left')).toMatchObject({
      room: 'a',
      reason: 'minutes_exhausted',
    });
    expect(await talking.closed).toBe(4402);
    const last = talking.messages.at(-1);
    expect(last).toMatchObject({ type: 'error', code: 'minutes_exhausted' });
    const { message, resets_at } = last as { message: string; resets_at: string };
    expect(message).toContain(resets_at.slice(0, 10));
    idle.send({ type: 'join', room: 'a', id: 'again' });
    expect(await idle.next('error')).toMatchObject({
      code: 'minutes_exhausted',
      resets_at: expect.stringMatching(/-01T00:00:00/) as string,
      reply_to: 'again',
    });
    const response = await fetch(`${gateway.url}/api/me`, {
      headers: { authorization: `Bearer ${apiKey}` },
    });
    expect(await response.json()).toMatchObject({
      summary: { remaining_minutes: 0, current_ccu: 1, max_ccu: 5 },
    });
  });

  test('a plan with more minutes lets them in again, without a restart', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url, OPERATOR_KEY: 'operator-key-1234' });
    const { apiKey, id } = await createAccount(redis, 'free');
    await new UsageStore(await openStore(redis)).write([used(id, PLAN_MS)]);
    const client = await connect(gateway, { api_key: apiKey });
    expect(await client.next('error')).toMatchObject({ code: 'minutes_exhausted' });
    await fetch(`${gateway.url}/api/admin/accounts/${id}`, {
      method: 'PATCH',
      headers: { authorization: 'Bearer operator-key-1234', 'content-type': 'application/json' },
      body: JSON.stringify({ plan: 'starter' }),
    });
    // The session learns of the change a moment after the operator is answered.
    const isIn = () => client.messages.some(({ type }) => type === 'joined');
    await eventually('it is let in', async () => {
      const from = client.messages.length;
      client.send({ type: 'join', room: 'a' });
      await client.until('an answer', () => client.messages[from]);
      return isIn();
    });
  });
});

test('Quota on the 1st of the next month: minutes are there again, and are warned of again', async () => {
  const { usage } = await openUsage();
  const told: string[] = [];
  let clockMs = 0;
  const quota = new Quota(
    usage,
    { wallMs: () => clockMs },
    {
      onWarning: (_id, remaining, resetsAt) => told.push(`${remaining} until ${resetsAt}`),
      onExhausted: () => told.push('exhausted'),
    },
  );
  const novemberMs = Date.UTC(2026, 10, 30, 23, 59);
  const decemberMs = Date.UTC(2026, 11, 1);
  await usage.write([count({ minute: '2026-11-30T23:59', websocketMs: 100 * 60_000 })]);
  const look = async (wallMs: number) => {
    clockMs = wallMs;
    quota.update(ACCOUNT, 'free', await usage.readMonthMs(ACCOUNT, wallMs), wallMs);
  };
  await look(novemberMs);
  await expect(quota.check(ACCOUNT, 'free')).rejects.toMatchObject({
    code: 'minutes_exhausted',
    resetsAt: '2026-12-01T00:00:00.000Z',
  });
  await look(decemberMs);
  await quota.check(ACCOUNT, 'free');
  await usage.write([count({ minute: '2026-12-01T00:00', websocketMs: 90 * 60_000 })]);
  await look(decemberMs);
  await look(decemberMs);
  expect(told).toEqual(['exhausted', 'exhausted', '10 until 2027-01-01T00:00:00.000Z']);
});

test('Meter, UsageStore and closing at random moments, over simulated days: sums equal', async () => {
  const { usage } = await openUsage();
  let wallMs = Date.UTC(2026, 9, 31, 22);
  let monotonicMs = 0;
  const meter = new Meter(
    { wallMs: () => wallMs, monotonicMs: () => monotonicMs },
    LONGEST_STEP_MS,
  );
  const leaves: (() => void)[] = [];
  let modelMs = 0;
  for (let step = 0; step < 1500; step += 1) {
    const passedMs = (step * 7919) % 20_000;
    wallMs += passedMs;
    monotonicMs += passedMs;
    modelMs += passedMs * leaves.length;
    if (step % 97 === 0) wallMs -= 600_000;
    if (step % 3 === 0) leaves.push(meter.enter(ACCOUNT, `r${step % 5}`, 'websocket'));
    if (step % 7 === 0) leaves.shift()?.();
    if (leaves.length > 20) leaves.pop()?.();
    const counts = meter.take();
    await usage.write(counts);
    // The answer may get lost.
    if (step % 5 !== 0) meter.written(counts);
    if (step % 4 === 0) {
      for (const open of await usage.listOpen(wallMs)) await usage.close(open, 400);
    }
  }
  const months = [Date.UTC(2026, 9, 31), Date.UTC(2026, 10, 1)];
  const sums = await Promise.all(months.map((month) => usage.readMonthMs(ACCOUNT, month)));
  expect(sums[0]! + sums[1]!).toBe(modelMs);
});
