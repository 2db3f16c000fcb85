import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify from 'fastify';
import { createClient } from 'redis';
import { DEFAULT_TIMINGS } from '../config/timings.ts';
import { openRedis, redisAddressOf } from '../src/store/open-redis.ts';
import { Redis } from '../src/store/redis.ts';
import { RedisClock } from '../src/store/redis-clock.ts';
import { UsageStore } from '../src/usage/usage-store.ts';
import { openUsageWorker } from '../workers/usage-jobs.ts';
import { GatewayProcess } from './gateway-process.ts';
import { met } from './goals.ts';
import { Load } from './load.ts';
import { quantile } from './percentiles.ts';
import { CROWD } from './scenario.ts';

const PEERS = CROWD.rooms * CROWD.peers;
const REQUESTS_PER_S = 200;
const REQUEST_MS = 10_000;
/** Time until all code is compiled, ms. */
const WARM_UP_MS = 3000;
const REDIS_WINDOW_MS = 30_000;
const MINUTES = 3000;
const GOALS = { meP99Ms: 20, redisOperations: 8 };

/**
 * Measures what operators and their accounts notice: admission, `GET /api/me`, the load of Redis, and the closing of
 * minutes.
 */
export async function reportOperator(print: (text: string) => void, signal: AbortSignal) {
  print('\n| for operators | measured | goal | |\n| --- | --- | --- | --- |\n');
  await using gateway = await GatewayProcess.start(CROWD);
  await using opened = new AsyncDisposableStack();
  const startMs = performance.now();
  const address = (room: number, peer: number) => gateway.address(room, peer);
  opened.adopt(await Load.connect(CROWD, [], address), (crowd) => crowd.close());
  const admissions = PEERS / ((performance.now() - startMs) / 1000);
  print(
    row(
      'connections admitted into rooms, one after the other in 16 lines',
      `${admissions.toFixed(0)} /s`,
    ),
  );
  await reportMe(print, gateway, signal);
  await reportRedis(print, gateway, signal);
  await reportClosing(print, signal);
}

const row = (what: string, measured: string, goal = '', isMet?: boolean) =>
  `| ${what} | ${measured} | ${goal} | ${isMet === undefined ? '' : met(isMet)} |\n`;

async function reportMe(
  print: (text: string) => void,
  gateway: GatewayProcess,
  signal: AbortSignal,
) {
  const latenciesMs: number[] = [];
  const headers = { authorization: `Bearer ${gateway.apiKey}` };
  const ask = async () => {
    const askedMs = performance.now();
    const response = await fetch(new URL('/api/me', gateway.url), { headers, signal });
    await response.arrayBuffer();
    if (!response.ok) throw new Error(`/api/me answered ${response.status}`);
    latenciesMs.push(performance.now() - askedMs);
  };
  const asked: Promise<void>[] = [];
  const startMs = performance.now();
  const warmUp = (REQUESTS_PER_S * WARM_UP_MS) / 1000;
  const count = warmUp + (REQUESTS_PER_S * REQUEST_MS) / 1000;
  for (let request = 0; request < count; request += 1) {
    const aheadMs = startMs + (request * 1000) / REQUESTS_PER_S - performance.now();
    if (aheadMs > 0) await sleep(aheadMs, undefined, { signal });
    asked.push(ask());
    if (request === warmUp) latenciesMs.length = 0;
  }
  await Promise.all(asked);
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  const [p50Ms, p99Ms] = [quantile(sorted, 0.5), quantile(sorted, 0.99)];
  const what = `GET /api/me, ${REQUESTS_PER_S} a second, ${PEERS} peers connected: p50 / p99`;
  const measured = `${p50Ms.toFixed(1)} / ${p99Ms.toFixed(1)} ms`;
  print(row(what, measured, `p99 ${GOALS.meP99Ms} ms`, p99Ms <= GOALS.meP99Ms));
}

/** Reports the number of commands that Redis counts, including those within scripts. */
async function reportRedis(
  print: (text: string) => void,
  gateway: GatewayProcess,
  signal: AbortSignal,
) {
  const client = createClient({
    socket: { path: join(gateway.dataDir, 'redis.sock'), tls: false },
  });
  await client.connect();
  const processed = async () =>
    Number(/total_commands_processed:(\d+)/.exec(await client.info('stats'))?.[1]);
  const before = await processed();
  await sleep(REDIS_WINDOW_MS, undefined, { signal });
  const perPeerMinute = ((await processed()) - before) / PEERS / (REDIS_WINDOW_MS / 60_000);
  client.destroy();
  const { redisOperations: goal } = GOALS;
  const what = `Redis operations a minute for each of ${PEERS} peers in ${CROWD.rooms} rooms`;
  print(row(what, perPeerMinute.toFixed(2), `${goal}`, perPeerMinute < goal));
}

/** Measures one usage worker that closes a minute of each of many accounts, in a Redis of its own that writes its file. */
async function reportClosing(print: (text: string) => void, signal: AbortSignal) {
  await using opened = new AsyncDisposableStack();
  const dataDir = await mkdtemp(join(tmpdir(), 'partyline-bench-'));
  opened.defer(() => rm(dataDir, { recursive: true, force: true }));
  const settings = { REDIS_URL: '', DATA_DIR: dataDir };
  const { log } = Fastify({ logger: { level: 'warn' } });
  const timings = DEFAULT_TIMINGS.redis;
  await openRedis({ settings, timings, opened, log });
  const redis = opened.adopt(await Redis.connect(redisAddressOf(settings), log, timings), (part) =>
    part.close(),
  );
  const usage = new UsageStore(redis);
  const counts = Array.from({ length: MINUTES }, (_, index) => ({
    writer: 'bench',
    accountId: index + 1,
    minute: '2026-01-01T00:00',
    room: 'a',
    websocketMs: 60_000,
    webrtcMs: 0,
    peakPeers: 1,
  }));
  await usage.write(counts);
  const startMs = performance.now();
  const clock = opened.adopt(await RedisClock.open(redis, log, DEFAULT_TIMINGS.redis), (part) =>
    part.close(),
  );
  const parts = { redis, clock, log };
  const worker = await openUsageWorker(redis.address, parts, {
    keepDays: 1,
    timings: DEFAULT_TIMINGS,
  });
  opened.defer(() => worker.close());
  while ((await usage.listOpen(Date.now())).length > 0) await sleep(20, undefined, { signal });
  const perMinute = MINUTES / ((performance.now() - startMs) / 60_000);
  print(row('minutes of accounts closed by one worker', `${perMinute.toFixed(0)} a minute`));
}
