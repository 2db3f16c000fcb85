import { describe, expect, test } from 'vitest';
import { Accounts } from '../../src/accounts/accounts.ts';
import { PLANS } from '../../src/accounts/plans.ts';
import { makeCertificates } from '../support/certificates.ts';
import type { TestClient } from '../support/client.ts';
import { runWorker, spawnAccounts } from '../support/data-folder.ts';
import type { FailoverRedis } from '../support/failover.ts';
import { eventually } from '../support/gateway.ts';
import { Hosts } from '../support/hosts.ts';
import { Newcomers } from '../support/newcomers.ts';
import type { GatewayProcess } from '../support/process.ts';
import { count, usageIn } from '../support/usage.ts';
import { longestGap, summaryOf, useFailover } from '../support/use-failover.ts';
import { useStack } from '../support/use-stack.ts';

/** With the product's durations, and the settings of docs/operations/grow.md. */

const { connect, enter, cleanUps } = useStack();
const { startRedis, startGateway, openStore, speak } = useFailover(cleanUps);

const RECOMMENDED = { downAfterMs: 5000, minReplicasToWrite: 1 };
const ROOMS = 6;
/** Peers of a room on each of two nodes. */
const PEERS = 2;
/** Time within which newcomers get in again. */
const BACK_WITHIN_MS = 15_000;
/** Time between two frames of a speaker. */
const FRAME_MS = 20;
/** Interval at which minutes are written. */
const WRITE_EVERY_MS = 5000;

type Address = { url: string; apiKey: string };

/** Rooms with peers on both nodes; in each one speaks. */
async function enterRooms(nodes: [Address, Address]): Promise<TestClient[]> {
  const peers: TestClient[] = [];
  for (let room = 0; room < ROOMS; room += 1) {
    for (const [index, node] of nodes.entries()) {
      for (let i = 0; i < PEERS; i += 1) {
        peers.push(await enter(node, `peer ${index} ${i} of ${room}`, { room: `room ${room}` }));
      }
    }
    await speak(peers.at(-1)!, 500);
  }
  return peers;
}

async function startNewcomers(nodes: Address[]): Promise<Newcomers> {
  const newcomers = new Newcomers(nodes, 250);
  cleanUps.push(() => newcomers.close());
  await eventually('newcomers get in', () => newcomers.firstInAfter(0) !== undefined);
  return newcomers;
}

/** Waits until some newcomers in a row get in after some were refused. @returns how long that took, ms */
async function untilBack(newcomers: Newcomers, withinMs = BACK_WITHIN_MS): Promise<number> {
  const startMs = performance.now();
  const from = newcomers.arrivals.length;
  const since = () => newcomers.arrivals.slice(from);
  await eventually('some are refused', () => since().some(({ isIn }) => !isIn), withinMs);
  const lastFour = () => since().slice(-4);
  await eventually(
    'newcomers get in',
    () => since().length > 4 && lastFour().every(({ isIn }) => isIn),
    withinMs - (performance.now() - startMs),
  );
  return performance.now() - startMs;
}

/** Counts the frames that clients hear from now on: half of those that are sent show that a call goes on, on a busy machine too. */
function framesHeard(clients: TestClient[]): () => number[] {
  const before = clients.map(({ frames }) => frames.length);
  return () => clients.map(({ frames }, index) => frames.length - before[index]!);
}

const leftOrFailed = ({ messages }: TestClient) =>
  messages.filter(({ type }) => type === 'peer_left' || type === 'error');

/** Asserts that minutes which are over are still closed, once. */
async function expectWorkersGoOn(redis: FailoverRedis): Promise<void> {
  const { usage, readRecords, monthMs } = usageIn(await openStore(redis));
  await usage.write([count({}), count({ writer: 'node-2', websocketMs: 30_000 })]);
  const isOpen = async () =>
    (await usage.listOpen(Infinity)).some(({ minute }) => minute === count({}).minute);
  await eventually('a worker closes it', async () => !(await isOpen()), 40_000);
  expect(await readRecords()).toMatchObject([{ room: 'a', websocketMs: 90_000 }]);
  expect(await monthMs()).toBe(90_000);
}

/** Two gateways, of which the first has a usage worker. */
async function startNodes(environment: Record<string, string>) {
  const first = await startGateway({ ...environment, USAGE_WORKERS: '1' });
  const { url, api_key: apiKey, account_id: accountId } = await first.ready();
  const second = await startGateway(environment);
  const nodes: [Address, Address] = [
    { url, apiKey },
    { url: (await second.ready()).url, apiKey },
  ];
  return { nodes, accountId, processes: [first, second] as [GatewayProcess, GatewayProcess] };
}

test.each(['is killed', 'hangs for half a minute'] as const)(
  'the primary %s under load: calls go on, newcomers get in within 15 s, and all figures are right',
  async (what) => {
    const redis = await startRedis(RECOMMENDED);
    const { nodes, processes, accountId } = await startNodes(redis.environment);
    const startMs = performance.now();
    const peers = await enterRooms(nodes);
    const enteredMs = performance.now();
    const newcomers = await startNewcomers(nodes);
    const speakers = peers.filter((_, index) => index % (2 * PEERS) === 2 * PEERS - 1);
    const listeners = peers.filter((peer) => !speakers.includes(peer));
    const gaps = listeners.map(longestGap);
    const heard = framesHeard(listeners);
    const former = await redis.primary();
    former.child.kill(what === 'is killed' ? 'SIGKILL' : 'SIGSTOP');
    const tookMs = await untilBack(newcomers);
    expect(await redis.primary()).not.toBe(former);
    const longestMs = Math.max(...gaps.map((gap) => gap()));
    process.stdout.write(
      `the primary ${what}: newcomers after ${Math.round(tookMs)} ms, longest gap ${Math.round(longestMs)} ms\n`,
    );
    expect(Math.min(...heard())).toBeGreaterThan(tookMs / FRAME_MS / 2);
    if (what !== 'is killed') {
      former.child.kill('SIGCONT');
      await eventually(
        'it is a replica',
        // Sentinels close its connections as they make it one.
        async () => String(await redis.ask(former, 'ROLE').catch(() => '')).startsWith('slave'),
        60_000,
      );
      await eventually(
        'newcomers still get in',
        () => newcomers.arrivals.slice(-8).every(({ isIn }) => isIn),
        10_000,
      );
    }
    await newcomers.close();
    const stays = newcomers.arrivals.filter(({ isIn }) => isIn).length;
    expect(peers.flatMap(leftOrFailed)).toEqual([]);
    await eventually(
      'leases are those of who is there',
      async () => (await summaryOf(nodes[0])).current_ccu === peers.length,
      60_000,
    );
    const leastMs = peers.length * (performance.now() - enteredMs - WRITE_EVERY_MS - 1000);
    const usedMs = async () => (await summaryOf(nodes[1])).total_minutes * 60_000;
    // The next sum makes up for one that could not be written.
    await expect.poll(usedMs, { timeout: 3 * WRITE_EVERY_MS }).toBeGreaterThan(leastMs);
    // A newcomer stays for well under a second.
    expect(await usedMs()).toBeLessThan(
      peers.length * (performance.now() - startMs) + stays * 1000,
    );
    await expectWorkersGoOn(redis);
    // One more than there are.
    const accounts = new Accounts(await openStore(redis));
    await accounts.update(accountId, { plan: 'starter' });
    expect(PLANS.starter.maxCcu).toBe(peers.length + 1);
    const limitAt = async (node: Address) => (await summaryOf(node)).max_ccu;
    for (const node of nodes) {
      await expect.poll(() => limitAt(node)).toBe(PLANS.starter.maxCcu);
    }
    await enter(nodes[1], 'the last one');
    const refused = await connect(nodes[0], { peer: 'one too many' });
    expect(await refused.next('error')).toMatchObject({ code: 'ccu_limit' });
    expect(processes.map(({ output }) => output.includes('"msg":"redis: '))).toEqual([
      false,
      false,
    ]);
  },
  240_000,
);

test('a gateway warns at its start of settings that lose data, and of sentinels that wait', async () => {
  const redis = await startRedis({ downAfterMs: 30_000, minReplicasToWrite: 0 });
  const primary = await redis.primary();
  await redis.ask(primary, 'CONFIG', 'SET', 'appendonly', 'no');
  await redis.ask(primary, 'CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
  const gateway = await startGateway(redis.environment);
  await gateway.ready();
  const settings = [...gateway.output.matchAll(/"level":40,.*"msg":"redis: (\S+) /g)];
  expect(settings.map(([, name]) => name)).toEqual([
    'maxmemory-policy',
    'appendonly',
    'min-replicas-to-write',
    'down-after-milliseconds',
  ]);
}, 60_000);

test('over TLS, with passwords: newcomers get in after the end of the primary', async () => {
  const certificates = await makeCertificates('IP:127.0.0.1');
  cleanUps.push(() => certificates.close());
  const passwords = { password: 'a/b:c@d', sentinelPassword: 'of-sentinels' };
  const redis = await startRedis({ ...RECOMMENDED, certificates, ...passwords });
  const environment = {
    ...redis.environment,
    REDIS_URL: redis.environment.REDIS_URL.replace('a/b:c@d', encodeURIComponent('a/b:c@d')),
    NODE_EXTRA_CA_CERTS: certificates.caFile,
  };
  const { nodes } = await startNodes(environment);
  const newcomers = await startNewcomers(nodes);
  (await redis.primary()).child.kill('SIGKILL');
  expect(await untilBack(newcomers)).toBeLessThan(BACK_WITHIN_MS);
}, 120_000);

test('no sentinel, a wrong password or name: gateway, worker and command say so within 10 s', async () => {
  const redis = await startRedis({ ...RECOMMENDED, password: 'of-redis' });
  const { REDIS_URL: url } = redis.environment;
  const wrong: [string, RegExp][] = [
    ['redis+sentinel://:of-redis@127.0.0.1:1,127.0.0.1:2/a', /no sentinel knows its primary/],
    [url.replace('of-redis', 'x'), /cannot be reached: WRONGPASS/],
    [`${url}x`, /No such master with that name/],
  ];
  for (const [REDIS_URL, words] of wrong) {
    for (const end of [
      async () => {
        const gateway = await startGateway({ REDIS_URL });
        return { code: await gateway.exited, stderr: gateway.output };
      },
      () => runWorker({ REDIS_URL }),
      () => spawnAccounts({ REDIS_URL }, 'list'),
    ]) {
      const startMs = performance.now();
      const { code, stderr } = await end();
      expect(performance.now() - startMs).toBeLessThan(10_000);
      expect(code).toBe(1);
      expect(stderr).toMatch(words);
    }
  }
}, 120_000);

describe.skipIf(!Hosts.arePossible)('the primary is cut off, with a gateway beside it', () => {
  test('that gateway refuses newcomers after seconds, the other lets them in, and minutes agree after it', async () => {
    const hosts = Hosts.open(1);
    cleanUps.push(() => hosts.close());
    const here = hosts.addressOfRedis(0);
    const there = here.replace(/1$/, '2');
    const away = { command: hosts.commandOn(0), address: there };
    const redis = await startRedis({ ...RECOMMENDED, address: here, away });
    const common = { ...redis.environment, CLUSTER_KEY: 'a key that both nodes know' };
    const first = await startGateway({ ...common, USAGE_WORKERS: '1' });
    const { url, api_key: apiKey } = await first.ready();
    const lonely = await startGateway(
      { ...common, HOST: '0.0.0.0', PORT: '3000', PIPE_LISTEN_IP: there },
      hosts.commandOn(0),
    );
    await lonely.ready();
    const nodes: [Address, Address] = [
      { url, apiKey },
      { url: `http://${hosts.addressForClients(0)}:3000`, apiKey },
    ];
    const startMs = performance.now();
    const peers: TestClient[] = [];
    for (const [index, node] of nodes.entries()) {
      for (const i of [0, 1])
        peers.push(await enter(node, `peer ${index} ${i}`, { room: `room ${index}` }));
      await speak(peers.at(-1)!, 500);
    }
    const enteredMs = performance.now();
    const [atFirst, atLonely] = [
      await startNewcomers([nodes[0]]),
      await startNewcomers([nodes[1]]),
    ];
    const heard = framesHeard(peers.filter((_, index) => index % 2 === 0));
    hosts.setRedisLink(0, 'down');
    const cutMs = performance.now();
    const tookMs = await untilBack(atFirst);
    const reasons = () => atLonely.arrivals.slice(-3).map(({ reason }) => reason);
    await eventually(
      'the lonely one refuses them',
      () => reasons().every((reason) => reason === 'overloaded'),
      20_000,
    );
    process.stdout.write(
      `cut off: newcomers after ${Math.round(tookMs)} ms, refused by the other after ${Math.round(performance.now() - cutMs)} ms\n`,
    );
    expect(lonely.output).toContain('NOREPLICAS');
    const cutForMs = performance.now() - cutMs;
    expect(Math.min(...heard())).toBeGreaterThan(cutForMs / FRAME_MS / 2);

    hosts.setRedisLink(0, 'up');
    const mendedMs = performance.now();
    await eventually(
      'newcomers get in there, too',
      () => atLonely.arrivals.slice(-4).every(({ isIn }) => isIn),
      BACK_WITHIN_MS,
    );
    expect(performance.now() - mendedMs).toBeLessThan(BACK_WITHIN_MS);
    await Promise.all([atFirst.close(), atLonely.close()]);
    expect(
      peers.flatMap(({ messages }) => messages.filter(({ type }) => type === 'error')),
    ).toEqual([]);
    for (const node of nodes) {
      await eventually(
        'leases are those of who is there',
        async () => (await summaryOf(node)).current_ccu === peers.length,
        60_000,
      );
    }
    // Lost with the former primary: at most what a gateway writes in min-replicas-max-lag and a
    // second.
    const lostMs = 2 * 11_000;
    const leastMs = peers.length * (performance.now() - enteredMs - WRITE_EVERY_MS - 1000) - lostMs;
    const stays = [...atFirst.arrivals, ...atLonely.arrivals].filter(({ isIn }) => isIn).length;
    for (const node of nodes) {
      const usedMs = (await summaryOf(node)).total_minutes * 60_000;
      expect(usedMs).toBeGreaterThan(leastMs);
      expect(usedMs).toBeLessThan(peers.length * (performance.now() - startMs) + stays * 1000);
    }
    await expectWorkersGoOn(redis);
  }, 240_000);
});
