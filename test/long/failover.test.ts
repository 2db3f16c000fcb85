import { expect, test } from 'vitest';
import { Accounts } from '../../src/accounts/accounts.ts';
import { eventually } from '../support/gateway.ts';
import { Newcomers } from '../support/newcomers.ts';
import { timingsOf } from '../support/process.ts';
import { slownessOfMachine } from '../support/slowness.ts';
import { count, usageIn } from '../support/usage.ts';
import { longestGap, summaryOf, useFailover } from '../support/use-failover.ts';
import { useStack } from '../support/use-stack.ts';

const { enter, connect, cleanUps } = useStack();
const { startRedis, startGateway, openStore, speak } = useFailover(cleanUps);

const PASSWORDS = { password: 'of-redis', sentinelPassword: 'of-sentinels' };
const TIMINGS = {
  usage: { writeEveryMs: 500, sweepEveryMs: 500, graceMs: 1000 },
  leases: { leaseMs: 9000, renewEveryMs: 3000 },
};

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
  await speak(alice, 500);
  await speak(bob, 1100);
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
    30_000,
  );
  const tookMs = performance.now() - killedMs;
  expect((await redis.primary()).port).not.toBe(killed.port);
  const gapsMs = gaps.map((gapMs) => gapMs());
  for (const { messages } of [alice, bob]) {
    expect(messages.filter(({ type }) => type === 'peer_left' || type === 'error')).toEqual([]);
  }
  await newcomers.close();
  const refused = newcomers.arrivals.find(({ isIn }) => !isIn)!;
  const awayMs = newcomers.firstInAfter(refused.atMs)!.atMs - killedMs;
  // Less than Redis was away.
  const mostMs = Math.min(awayMs, 2000 * (await slownessOfMachine()));
  expect(Math.max(...gapsMs)).toBeLessThan(mostMs);

  // A minute that ended before the workers of the former primary could close it.
  await usage.write([count({}), count({ writer: 'node-2', websocketMs: 30_000 })]);
  const { minute: over } = count({});
  await eventually(
    'a worker closes it',
    async () => !(await usage.listOpen(Infinity)).some(({ minute }) => minute === over),
    30_000,
  );
  expect(await readRecords()).toMatchObject([{ room: 'a', websocketMs: 90_000 }]);
  expect(await monthMs()).toBe(90_000);

  // Leases: those of before count, and the plan's limit holds.
  const leases = async () => (await summaryOf(nodes[0])).current_ccu;
  await eventually('leases are those of two peers', async () => (await leases()) === 2);
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
  const peerMs = 2 * (performance.now() - startMs) + newcomers.arrivals.length * 2000;
  const { total_minutes: total } = await summaryOf(nodes[0]);
  expect(total * 60_000).toBeLessThan(peerMs);
  const leastMs = 2 * (killedMs - startMs + tookMs) - 4000;
  expect(total * 60_000).toBeGreaterThan(leastMs);
  expect(first.logged('redis failed over; connecting to its new primary')).not.toEqual([]);
});
