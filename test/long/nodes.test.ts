import { describe, expect, test } from 'vitest';
import { KEY_FINGERPRINTS, NODE_FORMATS } from '../../src/store/keys.ts';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { timingsOf } from '../support/process.ts';
import { type Node, Nodes } from '../support/nodes.ts';
import { watchSlowness } from '../support/slowness.ts';
import { amplitudeOf, decodeOpus, keepPlaying, opusTone } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore, enter, connect, cleanUps } = useStack();

async function startNodes(count: number, environment: Record<string, string> = {}) {
  const redis = await openRedis();
  const timings = {
    nodes: { beatEveryMs: 300, deadAfterMs: 1000 },
    pipes: { retryAfterMs: 300 },
    // All nodes are back at a new Redis well before one of them is taken for dead.
    redis: { longestReconnectMs: 200 },
  };
  const cluster = new Nodes(redis, { ...timingsOf(timings), ...environment });
  cleanUps.push(() => cluster.close());
  const nodes: Node[] = [];
  // The key is that of the first.
  nodes.push(await cluster.start());
  const others = Array.from({ length: count - 1 }, () => cluster.start());
  nodes.push(...(await Promise.all(others)));
  return { nodes: nodes as [Node, Node, ...Node[]], redis, cluster };
}

/** Levels of some tones in the last half second that a client has heard. */
async function levelsIn({ frames }: TestClient, ...frequenciesHz: number[]): Promise<number[]> {
  const sound = await decodeOpus(frames.slice(-25));
  return frequenciesHz.map((hz) => amplitudeOf(sound, hz));
}

const hears = async (client: TestClient, ...frequenciesHz: number[]) => {
  const levels = await levelsIn(client, ...frequenciesHz);
  return levels.every((level) => level > 0.1);
};

/** Says a tone for as long as the test lasts. */
async function speak(client: TestClient, frequencyHz: number): Promise<void> {
  const playing = keepPlaying(client, await opusTone(frequencyHz, 0.2, 2000));
  cleanUps.push(() => playing.close());
}

describe('three nodes', () => {
  test('all hear all, whichever node they are on', async () => {
    const { nodes } = await startNodes(3);
    const tones = [500, 1100, 1700];
    const clients = await Promise.all(nodes.map((node, i) => enter(node, `peer ${i}`)));
    await Promise.all(clients.map((client, i) => speak(client, tones[i]!)));
    for (const [i, client] of clients.entries()) {
      const others = tones.filter((_, other) => other !== i);
      await eventually(`${i} hears the others`, () => hears(client, ...others));
      const [own] = await levelsIn(client, tones[i]!);
      expect(own).toBeLessThan(0.002);
    }
  });

  test('one is killed: its peers leave, the others go on, and it can be replaced', async () => {
    const { nodes, cluster } = await startNodes(3);
    const [alice, bob, carol] = await Promise.all(
      nodes.map((node, i) => enter(node, ['alice', 'bob', 'carol'][i]!)),
    );
    await speak(bob!, 500);
    await speak(carol!, 1100);
    await eventually('alice hears both', () => hears(alice!, 500, 1100));
    nodes[2]!.process.child.kill('SIGKILL');
    expect(await alice!.next('peer_left')).toMatchObject({ peer: 'carol' });
    await bob!.next('peer_left');
    await eventually('alice hears bob alone', async () => {
      const [bobs, carols] = await levelsIn(alice!, 500, 1100);
      return bobs! > 0.1 && carols! < 0.002;
    });
    const again = await enter(await cluster.start(), 'carol');
    await speak(again, 1100);
    await eventually('all is as before', () => hears(alice!, 500, 1100));
  });
});

test('a media worker is killed under a room that spans nodes: both directions come back within 3 s', async () => {
  const measureSlowness = await watchSlowness();
  const {
    nodes: [a, b],
  } = await startNodes(2);
  const [alice, bob] = [await enter(a, 'alice'), await enter(b, 'bob')];
  await Promise.all([speak(alice, 500), speak(bob, 1100)]);
  await eventually('both hear', async () => (await hears(alice, 1100)) && hears(bob, 500));
  process.kill(await a.process.descendantPid('mediasoup-worke'), 'SIGKILL');
  const killedMs = performance.now();
  const from = [alice.frames.length, bob.frames.length] as const;
  await eventually(
    'both hear again',
    async () =>
      alice.frames.length > from[0] + 40 &&
      bob.frames.length > from[1] + 40 &&
      (await hears(alice, 1100)) &&
      hears(bob, 500),
  );
  const tookMs = performance.now() - killedMs;
  expect(tookMs).toBeLessThan(4000 * (await measureSlowness()));
  expect(alice.messages.map(({ type }) => type)).not.toContain('peer_left');
});

test('Redis is killed and starts empty: calls between nodes go on, and what is shared is there again', async () => {
  const {
    nodes: [a, b],
    redis,
  } = await startNodes(2);
  const [alice, bob] = [await enter(a, 'alice'), await enter(b, 'bob')];
  await speak(alice, 500);
  await eventually('bob hears', () => hears(bob, 500));
  await redis.kill();
  const before = bob.frames.length;
  await new Promise((resolve) => setTimeout(resolve, 2000));
  expect(bob.frames.length - before).toBeGreaterThan(75);
  await redis.restart();
  // Long enough for a node to be taken for dead that had not written itself again.
  await new Promise((resolve) => setTimeout(resolve, 2500));
  const since = bob.frames.length;
  const hearsOn = async () => bob.frames.length > since + 50 && hears(bob, 500);
  await eventually('bob hears on', hearsOn);
  const store = await openStore(redis);
  for (const key of [NODE_FORMATS, KEY_FINGERPRINTS]) {
    expect(await store.run((client) => client.hLen(key))).toBe(2);
  }
  await alice.close();
  expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice' });
  expect(bob.messages.filter(({ type }) => type === 'peer_left')).toHaveLength(1);
});

/** Nodes that take none for dead in the time for which Redis is away. */
const PATIENT = timingsOf({ pipes: { retryAfterMs: 300 } });

test('a peer leaves while Redis is away: the other node learns why when it is back', async () => {
  const {
    nodes: [a, b],
    redis,
  } = await startNodes(2, PATIENT);
  const [alice, carol] = [await enter(a, 'alice'), await enter(a, 'carol')];
  const bob = await enter(b, 'bob');
  await redis.kill();
  carol.send({ type: 'leave' });
  expect(await alice.next('peer_left')).toMatchObject({ peer: 'carol', reason: 'left' });
  await eventually('it is tried', () => a.process.output.includes('room state not written'));
  await redis.restart();
  expect(await bob.next('peer_left')).toMatchObject({ peer: 'carol', reason: 'left' });
});

test('messages of somebody who does not know the key of the cluster change nothing', async () => {
  const { nodes, cluster, redis } = await startNodes(1, {
    CLUSTER_KEY: 'a key that all nodes know',
  });
  // It can write in Redis, and hides from what would refuse it.
  const store = await openStore(redis);
  await store.run((client) => client.del('partyline:node_key_fingerprints'));
  const stranger = await cluster.start({ CLUSTER_KEY: 'another key, of a stranger' });
  const alice = await enter(nodes[0], 'alice');
  const bob = await enter(stranger, 'bob');
  const other = await connect(stranger, { peer: 'alice', room: '__lobby__' });
  await other.next('welcome');
  await eventually('it is noticed', () => nodes[0].process.output.includes('bad seal'));
  expect(alice.messages.map(({ type }) => type)).not.toContain('peer_joined');
  expect((await bob.next('joined')).peers).toEqual([]);
});

test('a node whose CLUSTER_KEY differs is refused in words, and the others stay ready', async () => {
  const { nodes, cluster } = await startNodes(1, { CLUSTER_KEY: 'a key that all nodes know' });
  await expect(cluster.start({ CLUSTER_KEY: 'another key, mistyped' })).rejects.toThrow(
    'CLUSTER_KEY is not that of the nodes that run',
  );
  await expect(cluster.start({ CLUSTER_KEY: '' })).rejects.toThrow('CLUSTER_KEY');
  expect((await fetch(`${nodes[0].url}/readyz`)).status).toBe(200);
  nodes[0].process.child.kill('SIGKILL');
  // Its heartbeat stands still: it has been waited for.
  const next = await cluster.start({ CLUSTER_KEY: 'the key that all nodes have from now on' });
  expect((await fetch(`${next.url}/readyz`)).status).toBe(200);
});
