import { beforeEach, describe, expect, test } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { Hosts } from '../support/hosts.ts';
import { GatewayProcess } from '../support/process.ts';
import { watchSlowness } from '../support/slowness.ts';
import { keepPlaying, opusTone } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, enter, cleanUps } = useStack();

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

describe.skipIf(!Hosts.arePossible)('two nodes on machines of their own', () => {
  let hosts: Hosts;
  let alice: TestClient;
  let bob: TestClient;

  /** Returns whether something holds for both clients in the same second. */
  const both = async (holds: (client: TestClient) => Promise<boolean>) => {
    const [ofAlice, ofBob] = await Promise.all([holds(alice), holds(bob)]);
    return ofAlice && ofBob;
  };

  beforeEach(async () => {
    hosts = Hosts.open(2);
    cleanUps.push(() => hosts.close());
    const redis = await openRedis();
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
      cleanUps.push(() => node.dispose());
      const { api_key: apiKey } = await node.ready();
      return { url: `http://${hosts.addressForClients(host)}:3000`, apiKey };
    };
    const a = await start(0);
    const b = { ...(await start(1)), apiKey: a.apiKey };
    [alice, bob] = [await enter(a, 'alice'), await enter(b, 'bob')];
    for (const client of [alice, bob]) {
      const playing = keepPlaying(client, await opusTone(1000, 0.3, 2000));
      cleanUps.push(() => playing.close());
    }
    await eventually('both hear', () => both(isHeardWell));
  });

  test('the link between them is cut for 10 s: silence, nobody leaves, and sound again after it', async () => {
    hosts.setNodesLink(0, 1, 'down');
    const cutMs = performance.now();
    await eventually('silence', () => both(isSilent));
    await sleep(cutMs + 10_000 - performance.now());
    hosts.setNodesLink(0, 1, 'up');
    await eventually('sound', () => both(isHeardWell));
    expect(typesOf(alice)).not.toContain('peer_left');
    expect(typesOf(bob)).not.toContain('peer_left');
  });

  test('one cannot reach Redis for 10 s: to the other it has gone, and is there again after it', async () => {
    hosts.setRedisLink(0, 'down');
    expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice' });
    await sleep(6000);
    const from = bob.messages.length;
    hosts.setRedisLink(0, 'up');
    expect(await bob.next('peer_joined', from)).toMatchObject({ peer: 'alice' });
    await eventually('sound', () => both(isHeardWell));
    expect(typesOf(alice)).not.toContain('peer_left');
  });

  test('all packets between one and Redis are lost for 30 s: its peer is there again within 8 s, not when TCP tries again', async () => {
    hosts.setRedisLoss(0, 'all');
    const cutMs = performance.now();
    expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice' });
    const slowness = await watchSlowness();
    // TCP has tried after 27 s, and will again after 53 s.
    await sleep(cutMs + 30_000 - performance.now());
    const from = bob.messages.length;
    const backMs = performance.now();
    hosts.setRedisLoss(0, 'none');
    expect(await bob.next('peer_joined', from, 60_000)).toMatchObject({ peer: 'alice' });
    expect(performance.now() - backMs).toBeLessThan(8000 * (await slowness()));
    await eventually('sound', () => both(isHeardWell));
    expect(typesOf(alice)).not.toContain('peer_left');
  });
});
