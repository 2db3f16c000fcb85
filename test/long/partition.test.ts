import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { Hosts } from '../support/hosts.ts';
import { GatewayProcess } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';
import { watchSlowness } from '../support/slowness.ts';
import { keepPlaying, opusTone } from '../support/sound.ts';

/** Two nodes that are cut off from each other, or from Redis. The tests wait most of the time: they run side by side, each with nodes of its own. */

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const typesOf = ({ messages }: TestClient) => messages.map(({ type }) => type);

/** Frames that come within a second. */
async function framesInASecond(client: TestClient): Promise<number> {
  const before = client.frames.length;
  await sleep(1000);
  return client.frames.length - before;
}

const isHeardWell = async (client: TestClient) => (await framesInASecond(client)) > 45;
const isSilent = async (client: TestClient) => (await framesInASecond(client)) === 0;

type Room = {
  alice: TestClient;
  bob: TestClient;
  /** Returns whether something holds for both clients in the same second. */
  both: (holds: (client: TestClient) => Promise<boolean>) => Promise<boolean>;
};

describe.skipIf(!Hosts.arePossible)('two nodes on machines of their own', () => {
  const opened = new AsyncDisposableStack();
  let hosts: Hosts;
  /** One for each test. */
  const rooms: Room[] = [];

  /** Opens a node on a host and one on the host after it, and a client on each; both speak and hear each other. */
  async function openRoom(first: number): Promise<Room> {
    const redis = opened.adopt(await TestRedis.start(), (part) => part.kill());
    const start = async (host: number) => {
      const environment = {
        HOST: '0.0.0.0',
        PORT: '3000',
        REDIS_URL: redis.urlAt(hosts.addressOfRedis(host)),
        PIPE_LISTEN_IP: hosts.addressForNodes(host),
        CLUSTER_KEY: 'a key that both nodes know',
        USAGE_WORKERS: '0',
        LOG_LEVEL: 'warn',
      };
      const node = await GatewayProcess.start(environment, undefined, hosts.commandOn(host));
      opened.defer(() => node.dispose());
      return (await node.ready()).api_key;
    };
    const apiKey = await start(first);
    await start(first + 1);
    const speak = async (host: number, peer: string) => {
      const query = { room: 'a', peer, api_key: apiKey, audio: 'opus' };
      const url = `http://${hosts.addressForClients(host)}:3000`;
      const client = opened.adopt(await TestClient.connect(url, query), (part) => part.vanish());
      await client.next('joined');
      const playing = keepPlaying(client, await opusTone(1000, 0.3, 2000));
      opened.defer(() => playing.close());
      return client;
    };
    const [alice, bob] = [await speak(first, 'alice'), await speak(first + 1, 'bob')];
    const both: Room['both'] = async (holds) => {
      const [ofAlice, ofBob] = await Promise.all([holds(alice), holds(bob)]);
      return ofAlice && ofBob;
    };
    await eventually('both hear', () => both(isHeardWell));
    return { alice, bob, both };
  }

  beforeAll(async () => {
    hosts = Hosts.open(6);
    opened.defer(() => hosts.close());
    // One after the other: a node that starts may keep the others from their heartbeats.
    for (const first of [0, 2, 4]) rooms.push(await openRoom(first));
  });
  afterAll(() => opened.disposeAsync());

  test.concurrent(
    'the link between them is cut for 10 s: silence, nobody leaves, and sound again after it',
    async () => {
      const { alice, bob, both } = rooms[0]!;
      hosts.setNodesLink(0, 1, 'down');
      const cutMs = performance.now();
      await eventually('silence', () => both(isSilent));
      await sleep(cutMs + 10_000 - performance.now());
      hosts.setNodesLink(0, 1, 'up');
      await eventually('sound', () => both(isHeardWell));
      expect(typesOf(alice)).not.toContain('peer_left');
      expect(typesOf(bob)).not.toContain('peer_left');
    },
  );

  test.concurrent(
    'one cannot reach Redis for 10 s: to the other it has gone, and is there again after it',
    async () => {
      const { alice, bob, both } = rooms[1]!;
      hosts.setRedisLink(2, 'down');
      expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice' });
      await sleep(6000);
      const from = bob.messages.length;
      hosts.setRedisLink(2, 'up');
      expect(await bob.next('peer_joined', from)).toMatchObject({ peer: 'alice' });
      await eventually('sound', () => both(isHeardWell));
      expect(typesOf(alice)).not.toContain('peer_left');
    },
  );

  test.concurrent(
    'all packets between one and Redis are lost for 30 s: its peer is there again within 8 s, not when TCP tries again',
    async () => {
      const { alice, bob, both } = rooms[2]!;
      hosts.setRedisLoss(4, 'all');
      const cutMs = performance.now();
      expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice' });
      // TCP has tried after 27 s, and will again after 53 s. The other tests have ended by then.
      await sleep(cutMs + 30_000 - performance.now());
      const slowness = await watchSlowness();
      const from = bob.messages.length;
      const backMs = performance.now();
      hosts.setRedisLoss(4, 'none');
      expect(await bob.next('peer_joined', from, 60_000)).toMatchObject({ peer: 'alice' });
      expect(performance.now() - backMs).toBeLessThan(8000 * (await slowness()));
      await eventually('sound', () => both(isHeardWell));
      expect(typesOf(alice)).not.toContain('peer_left');
    },
  );
});
