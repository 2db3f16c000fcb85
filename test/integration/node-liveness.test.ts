import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { timingsWith } from '../../config/timings.ts';
import { Nodes } from '../../src/cluster/nodes.ts';
import { departedKey, NODES } from '../../src/store/keys.ts';
import { Redis } from '../../src/store/redis.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { StoppableProxy } from '../support/stoppable-proxy.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore, cleanUps } = useStack();

const timings = timingsWith({ nodes: { beatEveryMs: 50, deadAfterMs: 1500 } }).nodes;

/** A node, what it logs, and a way to write heartbeats of another one, `aheadMs` ahead of Redis's clock. */
async function openNode({ deadAfterMs } = timings) {
  const store = await openStore(await openRedis());
  const dead: string[] = [];
  const logged: string[] = [];
  const write = (line: string) => void logged.push((JSON.parse(line) as { msg: string }).msg);
  const { log } = Fastify({ logger: { stream: { write } } });
  const events = {
    onGone: (node: string) => void dead.push(node),
    onForgotten: () => {},
    onAnswered: () => {},
  };
  const nodes = await Nodes.open(store, log, events, { ...timings, deadAfterMs });
  cleanUps.push(() => nodes.close());
  const beat = (aheadMs: number) =>
    store.run((client) =>
      client.departNode({ keys: [NODES], arguments: ['other', String(aheadMs)] }),
    );
  return { nodes, beat, dead, logged, store };
}

test('a node whose heartbeat stands still is dead', async () => {
  const { nodes, beat, dead, logged } = await openNode();
  await beat(0);
  await eventually('it lives', () => nodes.size === 2);
  await eventually('it is dead', () => nodes.size === 1);
  expect(dead).toEqual(['other']);
  expect(logged).toEqual(['node died']);
});

test.each([0, 500, 2000])(
  'a node that closes with entries for %s ms has left, and has not died',
  async (lastsMs) => {
    const { nodes, dead, logged, store } = await openNode();
    const events = { onGone: () => {}, onForgotten: () => {}, onAnswered: () => {} };
    const other = await Nodes.open(store, silentLog, events, timings);
    await eventually('it lives', () => nodes.size === 2);
    await other.close(lastsMs);
    await eventually('its end is noticed', () => dead.length === 1);
    expect(dead).toEqual([other.id]);
    expect(logged).toEqual(['node has left']);
  },
);

test('a node that leaves and dates its last heartbeat ahead is dead only when that time is over', async () => {
  const { nodes, beat, dead, store } = await openNode();
  await store.run((client) => client.set(departedKey('other'), ''));
  const fromMs = performance.now();
  // Twice the silence after which it would be dead without the date.
  const aheadMs = 2 * timings.deadAfterMs;
  await beat(aheadMs);
  await eventually('it is dead', () => dead.length === 1);
  expect(performance.now() - fromMs).toBeGreaterThan(aheadMs);
  expect(nodes.size).toBe(1);
  expect(await nodes.list()).toEqual(new Set([nodes.id]));
});

test('a node whose heartbeats seemed ahead, because the clock of Redis stepped back, lives', async () => {
  // Longer than a busy machine takes from one heartbeat of the other node to the next.
  const { nodes, beat, dead, store } = await openNode({ ...timings, deadAfterMs: 10_000 });
  const own = () => store.run((client) => client.zScore(NODES, nodes.id));
  const untilNextBeat = async () => {
    const last = await own();
    await eventually('the next heartbeat', async () => (await own()) !== last);
  };
  await beat(0);
  await eventually('it lives', () => nodes.size === 2);
  await beat(3_600_000);
  // With the second one, the answer to the first has been read.
  await untilNextBeat();
  await untilNextBeat();
  expect(nodes.size).toBe(2);
  expect(await nodes.list()).toEqual(new Set([nodes.id, 'other']));
  await beat(0);
  await eventually('it lives', () => nodes.size === 2);
  expect(dead).toEqual([]);
});

test('a node that died before the clock of Redis stepped back is dead, though its last heartbeat lies ahead', async () => {
  const { nodes, beat, dead, logged } = await openNode();
  await beat(3_600_000);
  await eventually('it is dead', () => dead.length === 1);
  expect(dead).toEqual(['other']);
  expect(logged).toEqual(['node died']);
  await eventually('it does not count', () => nodes.size === 1);
});

test('a node that was removed while its network stalled learns it, though its next heartbeats come late', async () => {
  const redis = await openRedis();
  const proxy = await StoppableProxy.start(redis.url.replace('redis:', 'http:'));
  cleanUps.push(() => proxy.close());
  const redisTimings = timingsWith({ redis: { commandTimeoutMs: 500 } }).redis;
  const address = { url: proxy.url.replace('http:', 'redis:') };
  const cutOff = await Redis.connect(address, silentLog, redisTimings);
  cleanUps.push(() => cutOff.close());
  let timesForgotten = 0;
  const onForgotten = () => void (timesForgotten += 1);
  const nodes = await Nodes.open(
    cutOff,
    silentLog,
    { onGone: () => {}, onForgotten, onAnswered: () => {} },
    timings,
  );
  cleanUps.push(() => nodes.close());
  const dead: string[] = [];
  const events = {
    onGone: (node: string) => void dead.push(node),
    onForgotten: () => {},
    onAnswered: () => {},
  };
  const other = await Nodes.open(await openStore(redis), silentLog, events, timings);
  cleanUps.push(() => other.close());
  await eventually('they see each other', () => nodes.size === 2 && other.size === 2);
  proxy.stop();
  await eventually('it is dead', () => dead.length === 1);
  expect(dead).toEqual([nodes.id]);
  proxy.goOn();
  await eventually('it knows', () => timesForgotten > 0);
  await eventually('it lives', () => other.size === 2);
  expect(timesForgotten).toBe(1);
});
