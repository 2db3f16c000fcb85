import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, expect, test, vi } from 'vitest';
import { timingsWith } from '../../config/timings.ts';
import { RateLimits } from '../../src/accounts/rate-limits.ts';
import type { RedisAddress } from '../../src/store/client.ts';
import { redisAddressOf } from '../../src/store/open-redis.ts';
import { Redis } from '../../src/store/redis.ts';
import { eventually, silentLog, type TestGateway } from '../support/gateway.ts';
import type { TestClient } from '../support/client.ts';
import { TestProxy } from '../support/proxy.ts';
import { watchSlowness } from '../support/slowness.ts';
import { standStill } from '../support/stand-still.ts';
import { summaryOf } from '../support/use-failover.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openGateway, openNodes, openStore, enter, cleanUps } = useStack();

const { redis: timings } = timingsWith({
  redis: { askEveryMs: 100, commandTimeoutMs: 400, longestReconnectMs: 200, sentinelEveryMs: 200 },
});
/** Time after which a connection without answers is suspect. */
const SUSPECT_MS = 6 * timings.askEveryMs;
/** Longest time until commands work again: an attempt that fails, the pause behind it, one that is answered, and the time that the old connection has. */
const BACK_WITHIN_MS = 3 * timings.commandTimeoutMs + timings.longestReconnectMs + 500;

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function connect(address: RedisAddress, log = silentLog): Promise<Redis> {
  const store = await Redis.connect(address, log, timings);
  cleanUps.push(() => store.close());
  return store;
}

/** A Redis, the way to it, and a store that is connected over that, with a log of its own. */
async function openWay() {
  const redis = await openRedis();
  const proxy = await TestProxy.open(redis.url);
  cleanUps.push(() => proxy.close());
  const url = proxy.url.replace('http:', 'redis:');
  const log = silentLog.child({});
  return { redis, proxy, log, store: await connect({ url }, log) };
}

/** Waits until Redis answers, and fails if that takes longer than `withinMs`. */
async function untilAnswered(store: Redis, withinMs: number): Promise<void> {
  const slowness = await watchSlowness();
  const fromMs = performance.now();
  await eventually('commands work', () => store.isAvailable());
  const tookMs = performance.now() - fromMs;
  expect(tookMs).toBeLessThan(withinMs * (await slowness()));
}

const idOf = (store: Redis) => store.run((client) => client.sendCommand<number>(['CLIENT', 'ID']));

/** Listens to a channel, and notes what is heard. */
async function listen(store: Redis) {
  const heard: string[] = [];
  await store.subscribe('channel', {
    onMessage: (message) => heard.push(message),
    onGap: () => heard.push('gap'),
  });
  return heard;
}

test('connections that are dead, as nobody says, are replaced: commands work, and messages are heard', async () => {
  const { redis, proxy, store } = await openWay();
  const heard = await listen(store);
  proxy.hang();
  await untilAnswered(store, SUSPECT_MS + BACK_WITHIN_MS);
  await expect.poll(() => heard).toEqual(['gap']);
  const other = await openStore(redis);
  await other.publish('channel', 'hello');
  await expect.poll(() => heard).toEqual(['gap', 'hello']);
});

test('a network that is gone for longer: one new connection at a time, and commands work soon after it is back', async () => {
  const { proxy, store } = await openWay();
  const heard = await listen(store);
  const before = proxy.connections;
  proxy.silence();
  const goneMs = 3000;
  let open = 0;
  const looks = setInterval(() => (open = Math.max(open, proxy.connections.open)), 5);
  cleanUps.push(() => clearInterval(looks));
  await sleep(goneMs);
  await expect(store.run((client) => client.ping())).rejects.toThrow('cannot be reached');
  expect(open).toBe(before.open + 1);
  const tried = proxy.connections.accepted - before.accepted;
  expect(tried).toBeGreaterThan(1);
  expect(tried).toBeLessThan(goneMs / timings.commandTimeoutMs);
  proxy.speak();
  await untilAnswered(store, BACK_WITHIN_MS);
  await expect.poll(() => heard).toEqual(['gap']);
  // The old ones are closed.
  await expect.poll(() => proxy.connections.open).toBe(before.open);
});

test('a network that is gone before the first answer on a new connection: that is replaced, too', async () => {
  const { redis, proxy, store } = await openWay();
  const heard = await listen(store);
  const { accepted } = proxy.connections;
  proxy.silence();
  proxy.cut();
  proxy.leadTo(redis.url);
  await eventually('both connect', () => proxy.connections.accepted >= accepted + 2);
  proxy.speak();
  await untilAnswered(store, SUSPECT_MS + BACK_WITHIN_MS);
  await expect.poll(() => heard).toEqual(['gap']);
});

test('what was sent over a dead connection never runs, also if it reaches Redis later', async () => {
  const { redis, proxy, store } = await openWay();
  const other = await openStore(redis);
  const { open } = proxy.connections;
  proxy.hang();
  const written = store.run((client) =>
    Promise.all([client.set('key', 'old'), client.incr('count')]),
  );
  await expect(written).rejects.toThrow('cannot be reached');
  await untilAnswered(store, SUSPECT_MS + BACK_WITHIN_MS);
  await store.run((client) => Promise.all([client.set('key', 'new'), client.incr('count')]));
  proxy.goOn();
  // The proxy has delivered what it held back, and the old connections are closed.
  await expect.poll(() => proxy.connections.open).toBe(open);
  expect(await other.run((client) => client.mGet(['key', 'count']))).toEqual(['new', '1']);
});

test('a store that is closed while its connections are replaced leaves none open', async () => {
  const { proxy, store } = await openWay();
  const ended = vi.spyOn(store.client, 'destroy');
  proxy.silence();
  proxy.speak();
  await vi.waitFor(() => expect(ended).toHaveBeenCalled(), { timeout: 30_000, interval: 5 });
  await store.close();
  await expect.poll(() => proxy.connections.open).toBe(0);
  await sleep(timings.commandTimeoutMs);
  expect(proxy.connections.open).toBe(0);
});

test('a Redis that refuses to end connections: they are left to TCP, as the log says once, until it permits it', async () => {
  const { redis, proxy, log, store } = await openWay();
  const warned = vi.spyOn(log, 'warn');
  const other = await openStore(redis);
  const setRight = (right: string) =>
    other.run((client) => client.sendCommand(['ACL', 'SETUSER', 'default', right]));
  await setRight('-client|kill');
  proxy.silence();
  proxy.speak();
  await sleep(SUSPECT_MS + 2 * BACK_WITHIN_MS);
  expect(store.isReady).toBe(true);
  expect(await store.isAvailable()).toBe(false);
  const messages = warned.mock.calls.map(([, message]) => message);
  const refused = 'silent redis connections left to TCP: redis refused';
  expect(messages.filter((message) => message !== 'redis did not answer')).toEqual([refused]);
  await setRight('+client|kill');
  await untilAnswered(store, BACK_WITHIN_MS);
});

test('replies and messages are signs of life, also while no question gets through', async () => {
  const redis = await openRedis();
  const store = await connect({ url: redis.url });
  await listen(store);
  const readIds = () =>
    store.run(async (client) => new Set((await client.clientList()).map(({ id }) => id)));
  const before = await readIds();
  const commands = Object.getPrototypeOf(store.client) as Pick<typeof store.client, 'ping'>;
  const asking = vi.spyOn(commands, 'ping').mockRejectedValue(new Error('The queue is full'));
  cleanUps.push(() => asking.mockRestore());
  const untilMs = performance.now() + 2 * SUSPECT_MS + BACK_WITHIN_MS;
  while (performance.now() < untilMs) {
    await store.publish('channel', 'hello');
    await sleep(timings.askEveryMs);
  }
  expect(asking).toHaveBeenCalled();
  expect(await readIds()).toEqual(before);
});

test('a stranger who is refused without a question to Redis is no sign of life', async () => {
  const { proxy, store } = await openWay();
  const limits = new RateLimits(store, {
    authFailuresPerAddress: 1,
    authFailuresPerKeyPrefix: 100,
    requestsPerAccount: 100,
  });
  const fail = () => limits.countFailure('192.0.2.1', undefined);
  await fail();
  await expect(fail()).rejects.toThrow('Too many failed attempts');
  proxy.hang();
  const attempts = setInterval(() => void fail().catch(() => {}), timings.askEveryMs / 4);
  cleanUps.push(() => clearInterval(attempts));
  await untilAnswered(store, SUSPECT_MS + BACK_WITHIN_MS);
  await expect(fail()).rejects.toThrow('Too many failed attempts');
});

test('answers over the connection for subscriptions are no sign of life of that for commands', async () => {
  const redis = await openRedis();
  const store = await connect({ url: redis.url });
  const channels = Array.from({ length: 400 }, (_, i) => `channel ${i}`);
  const subscribing = setInterval(() => {
    void store.subscribe(channels.pop()!, { onMessage: () => {}, onGap: () => {} });
  }, timings.askEveryMs / 4);
  cleanUps.push(() => clearInterval(subscribing));
  store.client.sendCommand(['CLIENT', 'REPLY', 'OFF']).catch(() => {
    // The connection is ended.
  });
  await untilAnswered(store, SUSPECT_MS + BACK_WITHIN_MS);
  expect(channels.length).toBeGreaterThan(0);
});

test('a Redis that hangs keeps its connections, and does what it was told meanwhile', async () => {
  const redis = await openRedis();
  const store = await connect({ url: redis.url });
  const id = await idOf(store);
  const heard = await listen(store);
  redis.hang();
  const written = store.run((client) => client.set('key', 'written'));
  await expect(written).rejects.toThrow('cannot be reached');
  await sleep(3 * SUSPECT_MS);
  redis.goOn();
  await untilAnswered(store, timings.commandTimeoutMs);
  // For as long as a silent connection has once another is answered.
  await sleep(2 * timings.commandTimeoutMs);
  expect(await store.run((client) => client.get('key'))).toBe('written');
  expect(await idOf(store)).toBe(id);
  expect(heard).toEqual([]);
});

test('a process that stood still keeps its connections', async () => {
  const redis = await openRedis();
  const store = await connect({ url: redis.url });
  const id = await idOf(store);
  for (let times = 0; times < 3; times += 1) {
    standStill(2 * SUSPECT_MS);
    await sleep(timings.askEveryMs);
  }
  await sleep(2 * timings.commandTimeoutMs);
  expect(await idOf(store)).toBe(id);
});

test('the way to the primary that sentinels name is dead: it is replaced', async () => {
  const redis = await openRedis();
  const proxy = await TestProxy.open(redis.url);
  cleanUps.push(() => proxy.close());
  const sentinel = await openSentinel(new URL(proxy.url).port);
  const settings = { REDIS_URL: `redis+sentinel://127.0.0.1:${sentinel}/main`, DATA_DIR: '' };
  const store = await connect(redisAddressOf(settings));
  const heard = await listen(store);
  proxy.silence();
  await sleep(3 * SUSPECT_MS);
  proxy.speak();
  await untilAnswered(store, BACK_WITHIN_MS);
  await expect.poll(() => heard).toEqual(['gap']);
});

/** A sentinel that names one primary. @returns its port */
async function openSentinel(port: string): Promise<number> {
  const list = (...words: string[]) =>
    `*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join('')}`;
  const answers: Record<string, string> = {
    MASTER: list('config-epoch', '1', 'down-after-milliseconds', '1000'),
    'GET-MASTER-ADDR-BY-NAME': list('127.0.0.1', port),
  };
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => {}).on('close', () => open.delete(socket));
    socket.on('data', (bytes) => {
      const commands = bytes.toString().split(/^\*\d+\r\n/m);
      for (const command of commands.slice(1)) {
        const [, , , word = ''] = command.split('\r\n');
        socket.write(answers[word] ?? '+OK\r\n');
      }
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  cleanUps.push(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

describe('two nodes', () => {
  const short = {
    redis: timings,
    nodes: { beatEveryMs: 200, deadAfterMs: 800 },
    pipes: { retryAfterMs: 200 },
  };
  const leaversTold = ({ messages }: TestClient) =>
    messages.flatMap((message) => (message.type === 'peer_left' ? [message.peer] : []));

  test('Redis hangs: nobody leaves but who goes, and leases and rooms are right afterwards', async () => {
    const redis = await openRedis();
    const [a, b] = (await openNodes(2, {}, redis, short)) as [TestGateway, TestGateway];
    const alice = await enter(a, 'alice');
    const [bob, carol] = [await enter(b, 'bob'), await enter(b, 'carol')];
    await alice.next('peer_joined', alice.messages.indexOf(await alice.next('peer_joined')) + 1);
    const from = alice.messages.length;
    redis.hang();
    await sleep(2 * SUSPECT_MS);
    bob.vanish();
    await sleep(2 * SUSPECT_MS);
    redis.goOn();
    expect(await alice.next('peer_left', from)).toMatchObject({ peer: 'bob' });
    await expect.poll(async () => (await summaryOf(a)).current_ccu).toBe(2);
    const dave = await enter(b, 'dave');
    expect(await alice.next('peer_joined', from)).toMatchObject({ peer: 'dave' });
    const { peers } = await dave.next('joined');
    expect(peers.map(({ peer }) => peer).toSorted()).toEqual(['alice', 'carol']);
    await sleep(2 * short.nodes.deadAfterMs);
    expect(leaversTold(alice)).toEqual(['bob']);
    expect(leaversTold(carol)).toEqual(['bob']);
    expect((await summaryOf(b)).current_ccu).toBe(3);
  });

  test('one of them loses its network to Redis: its peers are back soon after it', async () => {
    const redis = await openRedis();
    const proxy = await TestProxy.open(redis.url);
    cleanUps.push(() => proxy.close());
    const url = proxy.url.replace('http:', 'redis:');
    const a = await openGateway({ REDIS_URL: redis.url }, short);
    const b = { ...(await openGateway({ REDIS_URL: url }, short)), apiKey: a.apiKey };
    const [alice, bob] = [await enter(a, 'alice'), await enter(b, 'bob')];
    await alice.next('peer_joined');
    proxy.silence();
    expect(await alice.next('peer_left')).toMatchObject({ peer: 'bob' });
    await sleep(2 * SUSPECT_MS);
    const from = alice.messages.length;
    proxy.speak();
    const slowness = await watchSlowness();
    const backMs = performance.now();
    expect(await alice.next('peer_joined', from)).toMatchObject({ peer: 'bob' });
    const tookMs = performance.now() - backMs;
    expect(tookMs).toBeLessThan((BACK_WITHIN_MS + short.nodes.deadAfterMs) * (await slowness()));
    expect(leaversTold(bob)).toEqual([]);
    await enter(b, 'carol');
    await expect.poll(async () => (await summaryOf(a)).current_ccu).toBe(3);
  });
});
