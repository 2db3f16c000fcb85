import Fastify from 'fastify';
import { expect, test } from 'vitest';
import type { Redis } from '../../src/store/redis.ts';
import { type OwnClocks, RedisClock } from '../../src/store/redis-clock.ts';
import { silentLog } from '../support/gateway.ts';
import { withTurnedClock } from '../support/turned-clock.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore, cleanUps } = useStack();

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const openTurnedStore = async () => withTurnedClock(await openStore(await openRedis()));

/** Keeps what is logged. */
function openLog() {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>);
  const { log } = Fastify({ logger: { level: 'info', stream: { write } } });
  return { log, lines };
}

async function openClock(store: Redis, own: OwnClocks, log = silentLog) {
  const clock = await RedisClock.open(store, log, { clockEveryMs: 600_000 }, own);
  cleanUps.push(() => clock.close());
  return clock;
}

const monotonicMs = () => performance.now();

test.each([-3 * DAY_MS, -HOUR_MS, HOUR_MS, 3 * DAY_MS])(
  "an own clock that is off by %i ms: the time is Redis's, and it is said once",
  async (offMs) => {
    const { log, lines } = openLog();
    const store = await openStore(await openRedis());
    let off = offMs;
    const clock = await openClock(store, { wallMs: () => Date.now() + off, monotonicMs }, log);
    expect(Math.abs(clock.wallMs() - Date.now())).toBeLessThan(1000);
    expect(Math.abs(clock.offsetMs - offMs)).toBeLessThan(1000);
    await clock.sync();
    await clock.sync();
    expect(lines).toMatchObject([{ level: 40, ahead_s: offMs / 1000 }]);
    off = 0;
    await clock.sync();
    expect(lines).toMatchObject([{ level: 40 }, { level: 30, ahead_s: 0 }]);
    expect(clock.jumps).toBe(0);
  },
);

test('an own clock that jumps changes nothing', async () => {
  const store = await openStore(await openRedis());
  let off = 0;
  const clock = await openClock(store, { wallMs: () => Date.now() + off, monotonicMs });
  const before = clock.wallMs();
  off = 3 * DAY_MS;
  await clock.sync();
  expect(clock.wallMs() - before).toBeLessThan(60_000);
  off = -HOUR_MS;
  await clock.sync();
  expect(clock.wallMs()).toBeGreaterThanOrEqual(before);
  expect(clock.jumps).toBe(0);
});

test.each([HOUR_MS, -HOUR_MS, 3 * DAY_MS])(
  "Redis's clock jumps by %i ms: it is followed, counted and told",
  async (jumpMs) => {
    const { log, lines } = openLog();
    const { store, jump } = await openTurnedStore();
    const clock = await openClock(store, { wallMs: Date.now, monotonicMs }, log);
    jump(jumpMs);
    await clock.sync();
    expect(Math.abs(clock.wallMs() - Date.now() - jumpMs)).toBeLessThan(1000);
    expect(clock.jumps).toBe(1);
    expect(lines[0]).toMatchObject({ level: 40, by_s: jumpMs / 1000 });
    await clock.sync();
    expect(clock.jumps).toBe(1);
  },
);

test('a small step back is no jump: the time stands still until it has caught up', async () => {
  const { store, jump, stop } = await openTurnedStore();
  await stop();
  let passedMs = 0;
  const clock = await openClock(store, { wallMs: Date.now, monotonicMs: () => passedMs });
  const before = clock.wallMs();
  jump(-1000);
  await clock.sync();
  expect(clock.wallMs()).toBe(before);
  expect(clock.jumps).toBe(0);
  passedMs = 900;
  expect(clock.wallMs()).toBe(before);
  passedMs = 1500;
  expect(clock.wallMs()).toBeCloseTo(before + 500);
});

test('a process that stood still while it waited for the answer sees no jump', async () => {
  const { store } = await openTurnedStore();
  let stoodMs = 0;
  const own = { wallMs: Date.now, monotonicMs: () => performance.now() + stoodMs };
  const clock = await openClock(store, own);
  const syncing = clock.sync();
  stoodMs = 30_000;
  await syncing;
  expect(clock.jumps).toBe(0);
});
