import { expect, test } from 'vitest';
import { Accounts } from '../../src/accounts/accounts.ts';
import { redisAddressOf } from '../../src/store/open-redis.ts';
import { Redis } from '../../src/store/redis.ts';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import type { TestClient } from '../support/client.ts';
import { CREATE, runWorker, spawnAccounts } from '../support/data-folder.ts';
import { FailoverRedis, type FailoverOptions } from '../support/failover.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { Newcomers } from '../support/newcomers.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { keepPlaying, opusTone } from '../support/sound.ts';
import { count, usageIn } from '../support/usage.ts';
import { useStack } from '../support/use-stack.ts';

const { enter, connect, cleanUps } = useStack();

const PASSWORDS = { password: 'of-redis', sentinelPassword: 'of-sentinels' };
const TIMINGS = {
  usage: { writeEveryMs: 500, sweepEveryMs: 500, graceMs: 1000 },
  leases: { leaseMs: 9000, renewEveryMs: 3000 },
};

async function startRedis(options: FailoverOptions): Promise<FailoverRedis> {
  const redis = await FailoverRedis.start(options);
  cleanUps.push(() => redis.close());
  return redis;
}

async function startGateway(environment: Record<string, string>) {
  const process = await GatewayProcess.start({ USAGE_WORKERS: '0', ...environment });
  cleanUps.push(() => process.dispose());
  return process;
}

async function openStore(redis: FailoverRedis): Promise<Redis> {
  const address = redisAddressOf({ ...redis.environment, DATA_DIR: '' });
  const store = await Redis.connect(address, silentLog, DEFAULT_TIMINGS.redis);
  cleanUps.push(() => store.close());
  return store;
}

const summaryOf = async ({ url, apiKey }: { url: string; apiKey: string }) => {
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await fetch(`${url}/api/me`, { headers });
  const { summary } = (await response.json()) as {
    summary: { current_ccu: number; total_minutes: number };
  };
  return summary;
};

/** Longest time between two frames from now on, ms. */
function longestGap(client: TestClient): () => number {
  let lastMs = performance.now();
  let longestMs = 0;
  const look = () => {
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  };
  client.onFrame = look;
  return () => {
    look();
    return longestMs;
  };
}

test('the primary is killed under load: calls go on, newcomers get in, minutes and leases are right, workers go on', async () => {
  const redis = await startRedis({ ...PASSWORDS, minReplicasToWrite: 1 });
  const environment = { ...redis.environment, ...timingsOf(TIMINGS), LOG_LEVEL: 'info' };
  const first = await startGateway({ ...environment, USAGE_WORKERS: '1' });
  const second = await startGateway(environment);
  const { url, api_key: apiKey } = await first.ready();
  const nodes = [
    { url, apiKey },
    { url: (await second.ready()).url, apiKey },
  ] as const;
  const store = await openStore(redis);
  const { usage, readRecords, monthMs } = usageIn(store);

  const startMs = performance.now();
  const alice = await enter(nodes[0], 'alice');
  const bob = await enter(nodes[1], 'bob');
  for (const [client, hz] of [
    [alice, 500],
    [bob, 1100],
  ] as const) {
    const playing = keepPlaying(client, await opusTone(hz, 0.3, 2000));
    cleanUps.push(() => playing.close());
  }
  await eventually('both hear', () => [alice, bob].every(({ frames }) => frames.length > 50));
  const newcomers = new Newcomers([...nodes], 250);
  cleanUps.push(() => newcomers.close());
  await eventually('newcomers get in', () => newcomers.firstInAfter(0) !== undefined);

  const gaps = [alice, bob].map(longestGap);
  const killed = await redis.primary();
  killed.child.kill('SIGKILL');
  const killedMs = performance.now();
  await eventually('it is noticed', () => newcomers.arrivals.some(({ isIn }) => !isIn));
  const backAfter = newcomers.arrivals.length;
  await eventually(
    'newcomers get in again, on both nodes',
    () =>
      newcomers.arrivals
        .slice(backAfter)
        .slice(-4)
        .filter(({ isIn }) => isIn).length === 4,
    15_000,
  );
  const tookMs = performance.now() - killedMs;
  expect(tookMs).toBeLessThan(15_000);
  expect((await redis.primary()).port).not.toBe(killed.port);
  // Silence of a second would be heard as a call that was cut; the longest that was measured is below 0.2 s.
  for (const gapMs of gaps) expect(gapMs()).toBeLessThan(1000);
  for (const { messages } of [alice, bob]) {
    expect(messages.filter(({ type }) => type === 'peer_left' || type === 'error')).toEqual([]);
  }
  await newcomers.close();

  // A minute that ended before the workers of the former primary could close it.
  await usage.write([count({}), count({ writer: 'node-2', websocketMs: 30_000 })]);
  await eventually('a worker closes it', async () => (await usage.listOpen(Infinity)).length <= 1);
  expect(await readRecords()).toMatchObject([{ room: 'a', websocketMs: 90_000 }]);
  expect(await monthMs()).toBe(90_000);

  // Leases: those of before count, and the plan's limit holds.
  await eventually('leases are those of two peers', async () => {
    return (await summaryOf(nodes[0])).current_ccu === 2;
  });
  const accounts = new Accounts(store);
  const { id } = await accounts.create({ name: 'Other', email: 'other@localhost', plan: 'free' });
  const other = { ...nodes[0], apiKey: (await accounts.addKey(id)).apiKey };
  for (let peer = 0; peer < 5; peer += 1) await enter(other, `peer ${peer}`);
  const sixth = await connect(other, { peer: 'peer 5' });
  expect(await sixth.next('error')).toMatchObject({ code: 'ccu_limit' });

  // Newcomers that got in stayed for a moment each.
  await eventually('minutes are written', async () => {
    return (await summaryOf(nodes[0])).total_minutes > 0;
  });
  const peerMs = 2 * (performance.now() - startMs) + newcomers.arrivals.length * 1000;
  const { total_minutes: total } = await summaryOf(nodes[0]);
  expect(total * 60_000).toBeLessThan(peerMs);
  const leastMs = 2 * (killedMs - startMs + tookMs) - 4000;
  expect(total * 60_000).toBeGreaterThan(leastMs);
  expect(first.logged('redis failed over; connecting to its new primary')).not.toEqual([]);
}, 120_000);

test('wrong sentinels, passwords and names: gateway, worker and command end within 10 s, and say why', async () => {
  const redis = await startRedis({ ...PASSWORDS, downAfterMs: 60_000 });
  const { REDIS_URL: url, SENTINEL_PASSWORD } = redis.environment;
  const wrong: [string, Record<string, string>, RegExp][] = [
    [
      'no sentinel',
      { REDIS_URL: 'redis+sentinel://:of-redis@127.0.0.1:1/a' },
      /127.0.0.1:1: .*ECONNREFUSED/,
    ],
    ['a name', { REDIS_URL: `${url}x`, SENTINEL_PASSWORD }, /No such master with that name/],
    ['no password of sentinels', { REDIS_URL: url }, /127.0.0.1:\d+: NOAUTH/],
    ['their password', { REDIS_URL: url, SENTINEL_PASSWORD: 'x' }, /127.0.0.1:\d+: WRONGPASS/],
    [
      'the password of Redis',
      { REDIS_URL: url.replace('of-redis', 'x'), SENTINEL_PASSWORD },
      /cannot be reached: WRONGPASS/,
    ],
  ];
  for (const [, environment, words] of wrong) {
    const startMs = performance.now();
    const [gateway, supervisor] = await Promise.all(
      ['1', '2'].map((PROCESSES) => startGateway({ ...environment, PROCESSES })),
    );
    const ended = await Promise.all([
      spawnAccounts(environment, ...CREATE),
      runWorker(environment),
      ...[gateway!, supervisor!].map(async (each) => {
        const code = await each.exited;
        return { code, stderr: each.output };
      }),
    ]);
    for (const { code, stderr } of ended) {
      expect(code).toBe(1);
      expect(stderr).toMatch(/Redis at redis\+sentinel:\/\/127\.0\.0\.1:\d+/);
      expect(stderr).toMatch(words);
      expect(stderr).not.toContain('of-redis');
    }
    expect(performance.now() - startMs).toBeLessThan(10_000);
  }
  const { code } = await spawnAccounts({ REDIS_URL: url, SENTINEL_PASSWORD }, ...CREATE);
  expect(code).toBe(0);
  // A primary that the sentinels know, and that is not there any more.
  for (const { child } of redis.servers) child.kill('SIGKILL');
  const { stderr } = await spawnAccounts({ REDIS_URL: url, SENTINEL_PASSWORD }, ...CREATE);
  expect(stderr).toMatch(/cannot be reached: connect ECONNREFUSED 127\.0\.0\.1/);
}, 120_000);
