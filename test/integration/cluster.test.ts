import { expect, test } from 'vitest';
import { timingsWith } from '../../config/timings.ts';
import { Cluster } from '../../src/cluster/cluster.ts';
import type { TestClient } from '../support/client.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import type { TestRedis } from '../support/redis.ts';
import { opusTone, peakHz, play, lastSecondOf } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const timings = timingsWith({ nodes: { beatEveryMs: 200, deadAfterMs: 600 } });

const { openNodes, openRedis, openStore, enter } = useStack();

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

test('speech on one node is heard on the other from its first packet, and the speaker is announced', async () => {
  // However busy the machine is, the first packets wait for the pipe.
  const [a, b] = await openNodes(2, {}, undefined, { pipes: { readyWithinMs: 5000 } });
  const alice = await enter(a!, 'alice');
  const bob = await enter(b!, 'bob');
  const carol = await enter(b!, 'carol');
  await alice.until('both', () => typesOf(alice).filter((t) => t === 'peer_joined')[1]);
  const tone = await opusTone(1000, 0.5, 2000);
  await play(alice, tone);
  for (const listener of [bob, carol]) {
    await eventually('every packet', () => listener.frames.length >= tone.length);
    expect(listener.frames).toEqual(tone);
    expect(await listener.next('speaking')).toMatchObject({ peers: [{ peer: 'alice' }] });
  }
  expect(peakHz(await lastSecondOf(bob))).toBe(1000);
  expect(alice.frames).toEqual([]);
});

/** A node without media, which has one room. */
async function openBareNode(redis: TestRedis) {
  const pipes = {
    addresses: [{ ip: '127.0.0.1' }],
    portRange: { min: 20000, max: 29999 },
  };
  const cluster = await Cluster.open(
    await openStore(redis),
    { clusterKey: '', pipes },
    silentLog,
    timings,
  );
  const events = {
    onPeers: () => {},
    onProducer: async () => {},
    onProducerClosed: () => {},
    onShared: () => {},
    onRelayed: () => {},
  };
  return { cluster, link: await cluster.openRoom(1, 'a', events, silentLog) };
}

test('places that a node leaves stay as long as they are kept, even if their room was closed before it', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const places = () => store.run((client) => client.exists('partyline:room:1:a'));
  const { cluster, link } = await openBareNode(redis);
  const other = await openBareNode(redis);
  link.setPeer('alice', 'websocket', 'a place', true);
  await link.close();
  await cluster.close(2500);
  // A node that had not kept them would be dead twice over.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  expect(await places()).toBe(1);
  await eventually('they have gone', async () => (await places()) === 0, 8000);
  await other.cluster.close(0);
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
  expect(keys.toSorted()).toEqual(['partyline:cluster_key', 'partyline:format']);
});
