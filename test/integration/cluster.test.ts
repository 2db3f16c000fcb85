import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { DEFAULT_TIMINGS, type TimingOverrides, timingsWith } from '../../config/timings.ts';
import { Accounts } from '../../src/accounts/accounts.ts';
import { Cluster } from '../../src/cluster/cluster.ts';
import { counters } from '../../src/counters.ts';
import { KEY_FINGERPRINTS } from '../../src/store/keys.ts';
import { Redis } from '../../src/store/redis.ts';
import type { TestClient } from '../support/client.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { TestProxy } from '../support/proxy.ts';
import type { TestRedis } from '../support/redis.ts';
import { keepPlaying, opusTone, peakHz, play, lastSecondOf } from '../support/sound.ts';
import { standStill } from '../support/stand-still.ts';
import { useStack } from '../support/use-stack.ts';
import { ignoredRoomEvents } from '../support/room-events.ts';

const { openNodes, openGateway, openRedis, openStore, enter, cleanUps } = useStack();

const typesOf = ({ messages }: TestClient) => messages.map(({ type }) => type);

test('peers on two nodes see each other come and go', async () => {
  const [a, b] = await openNodes(2);
  const alice = await enter(a!, 'alice');
  const bob = await enter(b!, 'bob');
  expect((await bob.next('joined')).peers).toMatchObject([{ peer: 'alice', kind: 'websocket' }]);
  expect(await alice.next('peer_joined')).toMatchObject({ peer: 'bob', kind: 'websocket' });
  await bob.ask({ type: 'leave' }, 'left');
  expect(await alice.next('peer_left')).toMatchObject({ peer: 'bob', reason: 'left' });
  expect(typesOf(alice).filter((type) => type === 'peer_joined')).toHaveLength(1);
});

test('installations in two databases of one server share nothing, though they have the same cluster key', async () => {
  const { url } = await openRedis();
  const open = (database: number) => {
    const own = { REDIS_URL: `${url}/${database}`, MEDIA_WORKERS: '1' };
    return openGateway({ ...own, CLUSTER_KEY: 'the same in both of them' });
  };
  const [first, second] = [await open(0), await open(1)];
  const faultsBefore = counters.sealFaults;
  const alice = await enter(first, 'alice');
  const bob = await enter(second, 'bob');
  // When these are known, so would be what came before them.
  await enter(first, 'carol');
  await enter(second, 'dave');
  const joinedOf = async (client: TestClient) => {
    await client.next('peer_joined');
    return client.messages.filter(({ type }) => type === 'peer_joined');
  };
  expect(await joinedOf(alice)).toMatchObject([{ peer: 'carol' }]);
  expect(await joinedOf(bob)).toMatchObject([{ peer: 'dave' }]);
  for (const client of [alice, bob]) {
    expect((await client.next('joined')).peers).toEqual([]);
  }
  expect(counters.sealFaults).toBe(faultsBefore);
  const timings = timingsWith({}).redis;
  const store = await Redis.connect({ url: `${url}/1` }, silentLog, timings);
  cleanUps.push(() => store.close());
  // Its node learns it by a channel, and the other node, whose account has the same number, does
  // not.
  await new Accounts(store).update(1, { status: 'suspended' });
  expect(await bob.closed).toBe(4403);
  await alice.ask({ type: 'leave' }, 'left');
});

test('Redis loses its data while a node without CLUSTER_KEY runs: the next node gets the key of that one, and shares its rooms', async () => {
  const redis = await openRedis();
  const environment = { REDIS_URL: redis.url, CLUSTER_KEY: '' };
  const timings: TimingOverrides = {
    nodes: { beatEveryMs: 100, deadAfterMs: 1000 },
    pipes: { retryAfterMs: 100 },
    redis: { longestReconnectMs: 100 },
  };
  const first = await openGateway(environment, timings);
  await redis.restart();
  const store = await openStore(redis);
  await eventually('the node has written itself again', async () => {
    const claimed = await store.run((client) => client.hLen(KEY_FINGERPRINTS));
    return claimed === 1;
  });
  // Accounts and keys are lost, too: this one makes new ones.
  const second = await openGateway(environment, timings);
  const alice = await enter({ ...first, apiKey: second.apiKey }, 'alice');
  const bob = await enter(second, 'bob');
  expect((await bob.next('joined')).peers).toMatchObject([{ peer: 'alice' }]);
  expect(await alice.next('peer_joined')).toMatchObject({ peer: 'bob' });
});

test('speech on one node is heard on the other from its first packet, and the speaker is announced', async () => {
  // However busy the machine is, the first packets wait for the pipe.
  const [a, b] = await openNodes(2, {}, undefined, { pipes: { readyWithinMs: 5000 } });
  const alice = await enter(a!, 'alice');
  const bob = await enter(b!, 'bob');
  const carol = await enter(b!, 'carol');
  await alice.until('both', () => typesOf(alice).filter((t) => t === 'peer_joined')[1]);
  // After more than a second of even sound a stall of 400 ms would count as a pause.
  const tone = await opusTone(1000, 0.5, 1000);
  await play(alice, tone);
  for (const listener of [bob, carol]) {
    await eventually('every packet', () => listener.frames.length >= tone.length);
    expect(listener.frames).toEqual(tone);
    expect(await listener.next('speaking')).toMatchObject({ peers: [{ peer: 'alice' }] });
  }
  expect(peakHz(await lastSecondOf(bob))).toBe(1000);
  expect(alice.frames).toEqual([]);
});

test('nodes that stand still while a pipe between them opens lose none of the first packets', async () => {
  const [a, b] = await openNodes(2);
  const tone = await opusTone(1000, 0.5, 400);
  for (const afterMs of [0, 1, 2, 3, 4, 6, 8]) {
    const room = `stood still after ${afterMs} ms`;
    const alice = await enter(a!, `alice ${afterMs}`, { room });
    const bob = await enter(b!, `bob ${afterMs}`, { room });
    await alice.next('peer_joined');
    alice.sendAudio(tone[0]!);
    await sleep(afterMs);
    standStill(DEFAULT_TIMINGS.pipes.readyWithinMs + 50);
    await play(alice, tone.slice(1));
    await eventually(`every packet (${room})`, () => bob.frames.length >= tone.length, 3000);
    expect(bob.frames).toEqual(tone);
  }
});

test('a node that announces a wrong address is silent to the one that speaks, and the other is not', async () => {
  const redis = await openRedis();
  const open = (environment: Record<string, string> = {}) =>
    openGateway(
      { REDIS_URL: redis.url, MEDIA_WORKERS: '1', ...environment },
      // Reports of what arrives come every 2.5 s.
      { pipes: { checkEveryMs: 500, silentAfterMs: 4000 } },
    );
  const a = await open();
  const wrong = await open({ PIPE_ANNOUNCED_ADDRESS: '192.0.2.1' });
  const right = await open();
  const alice = await enter(a, 'alice');
  const deaf = await enter({ url: wrong.url, apiKey: a.apiKey }, 'deaf');
  const bob = await enter({ url: right.url, apiKey: a.apiKey }, 'bob');
  await alice.until('both', () => typesOf(alice).filter((t) => t === 'peer_joined')[1]);
  const tone = await opusTone(1000, 0.5, 1000);
  const speech = keepPlaying(alice, tone);
  cleanUps.push(() => speech.close());
  const silentNodes = async () => {
    const page = await (await fetch(`${a.url}/metrics`)).text();
    return /^partyline_silent_nodes (\d+)$/m.exec(page)?.[1];
  };
  expect(await silentNodes()).toBe('0');
  await expect.poll(silentNodes).toBe('1');
  expect({ deaf: deaf.frames.length, bob: bob.frames.length > 100 }).toEqual({
    deaf: 0,
    bob: true,
  });
});

test('a peer that leaves another node while messages are lost is gone when they come again', async () => {
  const redis = await openRedis();
  const proxy = await TestProxy.open(redis.url.replace('redis:', 'http:'));
  cleanUps.push(() => proxy.close());
  const behindProxy = { REDIS_URL: proxy.url.replace('http:', 'redis:'), MEDIA_WORKERS: '1' };
  const a = await openGateway(behindProxy, { pipes: { absentAfterMs: 500 } });
  const b = await openGateway({ REDIS_URL: redis.url, MEDIA_WORKERS: '1' });
  const alice = await enter(a, 'alice');
  const bob = await enter({ url: b.url, apiKey: a.apiKey }, 'bob');
  await alice.next('peer_joined');
  proxy.cut();
  await bob.ask({ type: 'leave' }, 'left');
  await eventually('bob is gone there', () => b.counts().rooms === 0);
  proxy.leadTo(redis.url.replace('redis:', 'http:'));
  expect(await alice.next('peer_left')).toMatchObject({ peer: 'bob' });
});

/** A node without media, which has one room. */
async function openBareNode(redis: TestRedis, changed: TimingOverrides = {}) {
  const pipes = {
    addresses: [{ ip: '127.0.0.1' }],
    portRange: { min: 20000, max: 29999 },
  };
  const own = timingsWith({ nodes: { beatEveryMs: 200, deadAfterMs: 600 }, ...changed });
  const store = await Redis.connect({ url: redis.url }, silentLog, own.redis);
  cleanUps.push(() => store.close());
  const cluster = await Cluster.open(store, { clusterKey: '', pipes }, silentLog, own);
  const events = ignoredRoomEvents();
  return { store, cluster, events, link: await cluster.openRoom(1, 'a', events, silentLog) };
}

test('a room that is opened again while Redis hangs is not erased by the link before it', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const places = () => store.run((client) => client.exists('partyline:room:1:a'));
  const { cluster, link, events } = await openBareNode(redis, {
    redis: { commandTimeoutMs: 1000 },
    pipes: { retryAfterMs: 300 },
  });
  link.setPeer('alice', 'websocket', 'first', false);
  await eventually('alice is there', async () => (await places()) === 1);
  redis.hang();
  link.removePeer('alice', 'left');
  const closed = link.close();
  const opened = cluster.openRoom(1, 'a', events, silentLog);
  await closed;
  redis.goOn();
  const next = await opened;
  next.setPeer('bob', 'websocket', 'second', false);
  await eventually('bob is there', async () => (await places()) === 1);
  // The time after which the first link would write again.
  await new Promise((resolve) => setTimeout(resolve, 600));
  expect(await places()).toBe(1);
  await cluster.close(0);
});

test('a producer counts as running once the other nodes hear it or have had time to, and no longer when it has ended', async () => {
  const redis = await openRedis();
  const nodes = [await openBareNode(redis), await openBareNode(redis)] as const;
  const [{ link }, { link: other }] = nodes;
  await link.addProducer('alice', 'before');
  expect(link.isRunning('before')).toBe(true);
  other.setPeer('bob', 'websocket', 'a place', false);
  await eventually('bob is known', () => link.isShared);
  const added = link.addProducer('alice', 'after');
  expect(link.isRunning('after')).toBe(false);
  // Nothing is heard without media.
  await added;
  expect(link.isRunning('after')).toBe(true);
  for (const id of ['before', 'after']) link.removeProducer(id);
  expect([link.isRunning('before'), link.isRunning('after')]).toEqual([false, false]);
  for (const { cluster } of nodes) await cluster.close(0);
});

test('places that a node leaves stay as long as they are kept, even if their room was closed before it', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const places = () => store.run((client) => client.exists('partyline:room:1:a'));
  const { cluster, link } = await openBareNode(redis);
  const other = await openBareNode(redis);
  link.setPeer('alice', 'websocket', 'a place', true);
  await link.close();
  const closesMs = performance.now();
  await cluster.close(2500);
  await eventually('they have gone', async () => (await places()) === 0);
  // A node that had not kept them would be dead after 600 ms.
  expect(performance.now() - closesMs).toBeGreaterThan(2000);
  await other.cluster.close(0);
});

test('a peer that loses its place after its node has left is kept for the client, and nothing is written', async () => {
  const { store, cluster, link } = await openBareNode(await openRedis());
  link.setPeer('alice', 'websocket', 'a place', true);
  await link.close();
  await cluster.close(2500);
  link.removePeer('alice', 'closed');
  // A write would begin in the next turn of the event loop. It takes two round trips, as its script
  // is not loaded yet.
  await new Promise(setImmediate);
  for (let i = 0; i < 3; i += 1) await store.run((client) => client.ping());
  expect(await store.run((client) => client.exists('partyline:room:1:a'))).toBe(1);
});

test('a room that a node has left is left again after a failover that lost it', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const { cluster, link } = await openBareNode(redis);
  const [room, traces] = ['partyline:room:1:a', `partyline:node:${cluster.node}:traces`];
  const isListed = () => store.run((client) => client.hExists(room, cluster.node));
  link.setPeer('alice', 'websocket', 'a place', false);
  await eventually('alice is there', async () => (await isListed()) === 1);
  const { client } = store;
  await Promise.all([client.copy(room, 'room'), client.copy(traces, 'traces')]);
  link.removePeer('alice', 'left');
  await link.close();
  expect(await isListed()).toBe(0);
  await client.multi().copy('room', room).copy('traces', traces, { REPLACE: true }).exec();
  expect(await isListed()).toBe(1);
  await client.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal']);
  await eventually('it has left again', async () => (await isListed()) === 0);
  expect(await store.run((each) => each.sIsMember(traces, room))).toBe(0);
  await cluster.close(0);
});

test('a node that keeps no places leaves nothing, even if it had not told that its peers had gone', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const { cluster, link } = await openBareNode(redis);
  link.setPeer('alice', 'websocket', 'a place', false);
  await eventually(
    'it is told',
    async () => (await store.run((client) => client.exists('partyline:room:1:a'))) === 1,
  );
  link.removePeer('alice', 'left');
  link.abandon();
  await cluster.close(0);
  const keys = await store.run((client) => client.keys('partyline:*'));
  const noted = `partyline:node:${cluster.node}:departed`;
  expect(keys.toSorted()).toEqual(['partyline:cluster_key', 'partyline:format', noted]);
});
