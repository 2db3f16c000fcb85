import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

/** IPv6 on the loopback of this machine; a network without IPv4 is in test/long/ipv6.test.ts. */

const { openGateway, openRedis, enter, connect, cleanUps } = useStack();

test.each([
  ['IPv6 alone, and one of both families', ['::1', '127.0.0.1,::1']],
  ['both families', ['::1,127.0.0.1', '127.0.0.1,::1']],
])('nodes of %s hear each other, also formats that nobody knows', async (_name, lists) => {
  const { url: REDIS_URL } = await openRedis();
  const shared = { REDIS_URL, MEDIA_WORKERS: '1' };
  // However busy the machine is, the first packets wait for the pipe.
  const patient = { pipes: { readyWithinMs: 5000 } };
  const one = await openGateway({ ...shared, PIPE_LISTEN_IP: lists[0]! }, patient);
  const other = await openGateway({ ...shared, PIPE_LISTEN_IP: lists[1]! }, patient);
  const there = { url: other.url, apiKey: one.apiKey };
  const alice = await enter(one, 'alice');
  const bob = await enter(there, 'bob');
  const [carol, dave] = [
    await enter(one, 'carol', { audio: 'opaque' }),
    await enter(there, 'dave', { audio: 'opaque' }),
  ];
  await alice.until('all', () => alice.messages.filter(({ type }) => type === 'peer_joined')[2]);
  const tone = await opusTone(1000, 0.5, 400);
  await play(alice, tone);
  await eventually('every packet', () => bob.frames.length >= tone.length);
  expect(bob.frames).toEqual(tone);
  const secret = Buffer.from('of no format');
  carol.sendAudio(secret);
  await eventually('it is relayed', () => dave.frames.length > 0);
  expect(dave.frames).toEqual([secret]);
});

test('nodes of IPv4 alone and of IPv6 alone say once that they do not hear each other, and nobody waits for it', async () => {
  const { url: REDIS_URL } = await openRedis();
  const retryAfterMs = 50;
  // A speaker that waited for the other node would wait for longer than this test may take.
  const timings = timingsOf({ pipes: { retryAfterMs, readyWithinMs: 120_000 } });
  const start = async (PIPE_LISTEN_IP: string) => {
    const environment = { REDIS_URL, PIPE_LISTEN_IP, USAGE_WORKERS: '0', ...timings };
    const gateway = await GatewayProcess.start(environment);
    cleanUps.push(() => gateway.dispose());
    return { gateway, ...(await gateway.ready()) };
  };
  const [one, other] = [await start('127.0.0.1'), await start('::1')];
  const apiKey = one.api_key;
  const [here, there] = [
    { url: one.url, apiKey },
    { url: other.url, apiKey },
  ];
  const metrics = async ({ url }: { url: string }) => (await fetch(`${url}/metrics`)).text();
  const tone = await opusTone(1000, 0.5, 200);
  const strangers: TestClient[] = [];
  for (const room of ['a', 'b', 'c']) {
    const speaker = await enter(here, `speaker ${room}`, { room });
    const listener = await enter(here, `listener ${room}`, { room });
    const stranger = await enter(there, `stranger ${room}`, { room });
    strangers.push(stranger);
    await speaker.until('the stranger', () =>
      speaker.messages.find(
        (message) => message.type === 'peer_joined' && message.peer === `stranger ${room}`,
      ),
    );
    await play(speaker, tone);
    await eventually('every packet', () => listener.frames.length >= tone.length);
    expect(stranger.frames).toEqual([]);
  }
  const notHeard =
    'rooms not heard from node, nor there from here: no address family in common; PIPE_LISTEN_IP of both must have one';
  await eventually('both have said so', () =>
    [one, other].every(({ gateway }) => gateway.logged(notHeard).length > 0),
  );
  await sleep(20 * retryAfterMs);
  for (const { gateway } of [one, other]) {
    const [line, ...more] = gateway.logged(notHeard);
    expect(more).toEqual([]);
    const families = [line?.['families'], line?.['other_families']];
    expect(families).toEqual(expect.arrayContaining([['ipv4'], ['ipv6']]));
    expect(gateway.logged('pipe to node failed; reopened')).toEqual([]);
  }
  for (const node of [here, there]) {
    await expect.poll(() => metrics(node)).toContain('partyline_unreachable_nodes 1\n');
    expect(await metrics(node)).toContain('partyline_pipe_faults_total 0\n');
  }
  for (const stranger of strangers) await stranger.close();
  await expect.poll(() => metrics(here)).toContain('partyline_unreachable_nodes 0\n');
});

test('HOST=:: serves both families; what is counted of an IPv6 client is counted of its /64, behind proxies of either family', async () => {
  const gateway = await openGateway({
    HOST: '::',
    TRUST_PROXY: '::1,127.0.0.0/8',
    AUTH_FAILURES_PER_ADDRESS: '2',
  });
  const { port } = new URL(gateway.url);
  const { apiKey } = gateway;
  const networkOf = async (host: string, from?: string) => {
    const at = { url: `http://${host}:${port}`, apiKey };
    const client = await connect(at, { peer: 'ada' }, from ? { 'x-forwarded-for': from } : {});
    return (await client.next('welcome')).network;
  };
  expect(await networkOf('127.0.0.1')).toBe('127.0.0.0/24');
  expect(await networkOf('[::1]')).toBe('0:0:0:0::/64');
  expect(await networkOf('127.0.0.1', '2001:db8:1:2::7')).toBe('2001:db8:1:2::/64');
  expect(await networkOf('[::1]', '203.0.113.7')).toBe('203.0.113.0/24');

  const refusal = async (from: string) => {
    const query = { room: 'a', peer: 'eve', api_key: 'pl_wrong' };
    const headers = { 'x-forwarded-for': from };
    const client = await TestClient.connect(`http://[::1]:${port}`, query, { headers });
    return client.closed;
  };
  const ofOne = ['2001:db8:0:9::1', '2001:db8:0:9::2', '2001:db8:0:9:ffff::3'];
  const codes: number[] = [];
  for (const from of ofOne) codes.push(await refusal(from));
  expect(codes).toEqual([4401, 4401, 4429]);
  expect(await refusal('2001:db8:0:a::1')).toBe(4401);
});
