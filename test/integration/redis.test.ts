import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Fastify from 'fastify';
import { describe, expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { mayHaveRun, Redis } from '../../src/store/redis.ts';
import { MAX_QUEUED_COMMANDS, newRedisClient } from '../../src/store/client.ts';
import { SIGNING_KEY_CHANGES, SIGNING_KEYS, WITHDRAWN_SIGNING_KEYS } from '../../src/store/keys.ts';
import { SCRIPTS } from '../../src/store/scripts.ts';
import { adviseOnRedis, redisAdvice } from '../../src/store/redis-advice.ts';
import { eventually } from '../support/gateway.ts';
import { TestRedis } from '../support/redis.ts';
import { standStill } from '../support/stand-still.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openGateway, openStore, connect, cleanUps } = useStack();

test('a subscriber that is told of missed messages can run commands', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const answers: (string | Error)[] = [];
  const onGap = () => {
    store
      .run((client) => client.ping())
      .then(
        (answer) => answers.push(answer),
        (fault: Error) => answers.push(fault),
      );
  };
  await store.subscribe('channel', { onMessage: () => {}, onGap });
  for (let restarts = 1; restarts <= 5; restarts += 1) {
    await redis.restart();
    await eventually('the gap is told', () => answers.length === restarts);
  }
  expect(answers).toEqual(Array.from({ length: 5 }, () => 'PONG'));
});

test('a command that finds the queue full was not sent, one that is not answered in time was', async () => {
  const store = await openStore(await openRedis(), { commandTimeoutMs: 200 });
  await store.client.sendCommand(['CLIENT', 'PAUSE', '1000', 'ALL']);
  const outcome = () => store.run((client) => client.incr('count')).catch(mayHaveRun);
  const sent = outcome();
  for (let queued = 1; queued < MAX_QUEUED_COMMANDS; queued += 1) {
    store.client.ping().catch(() => {
      // Redis does not answer while the store is open.
    });
  }
  expect(await outcome()).toBe(false);
  expect(await sent).toBe(true);
});

test('a subscriber that is told of a gap can read data that Redis had to load first', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-redis-'));
  cleanUps.push(() => rm(folder, { recursive: true }));
  const redis = await TestRedis.start(folder);
  cleanUps.push(() => redis.kill());
  const store = await openStore(redis);
  const fill = "for i = 1, 300000 do redis.call('SET', 'key ' .. i, i) end";
  await store.client.eval(fill);
  const answers: (string | null | Error)[] = [];
  const onGap = () => {
    store
      .run((client) => client.get('key 300000'))
      .then(
        (answer) => answers.push(answer),
        (fault: Error) => answers.push(fault),
      );
  };
  await store.subscribe('channel', { onMessage: () => {}, onGap });
  await redis.restart();
  await eventually('the gap is told', () => answers.length > 0);
  expect(answers).toEqual(['300000']);
});

test('Redis can compile every script, and is sent one again that it has lost', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  for (const { SCRIPT, SHA1 } of Object.values(SCRIPTS)) {
    expect(await store.run((client) => client.scriptLoad(SCRIPT))).toBe(SHA1);
  }
  const beat = { keys: ['nodes', 'traces', 'mark'], arguments: ['node', 'join'] };
  const heartbeats = () => store.run((client) => client.beatNode(beat));
  const answer = [1, ['node', expect.any(String)]];
  expect(await heartbeats()).toEqual(answer);
  await store.run((client) => client.scriptFlush());
  expect(await heartbeats()).toEqual(answer);
});

test('a subscription that ends while Redis is disconnected is not renewed when it is back', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const listener = { onMessage: () => {}, onGap: () => {} };
  await store.subscribe('wanted', listener);
  const leave = await store.subscribe('unwanted', listener);
  redis.hang();
  leave();
  await redis.restart();
  await eventually('it hears again, and no more than it wants', async () => {
    if (!(await store.isAvailable())) return false;
    const channels = await store.run((client) => client.pubSubChannels());
    return channels.join() === 'wanted';
  });
});

test('an operator is told at a start of settings that lose data, and that a Redis does not tell them', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const lines: string[] = [];
  const { log } = Fastify({ logger: { stream: { write: (line: string) => lines.push(line) } } });
  const advise = async () => {
    lines.length = 0;
    await adviseOnRedis(store, log);
    return lines.map((line) => (JSON.parse(line) as { msg: string }).msg);
  };
  const set = (name: string, value: string) => store.run((client) => client.configSet(name, value));
  await set('maxmemory-policy', 'allkeys-lru');
  expect(await advise()).toEqual([
    'redis: maxmemory-policy is allkeys-lru: a full Redis would drop minutes; set noeviction',
    expect.stringContaining('redis: appendonly is no: '),
  ]);
  await set('maxmemory-policy', 'noeviction');
  await store.run((client) => client.aclSetUser('default', '-config'));
  expect(await advise()).toEqual(['redis settings cannot be read; check them']);
  expect(redisAdvice({ 'maxmemory-policy': 'noeviction', appendonly: 'yes' })).toEqual([]);
});

describe('a Redis that has a snapshot and no append-only file, restarted with appendonly yes', () => {
  async function startWithSnapshot() {
    const folder = await mkdtemp(join(tmpdir(), 'partyline-redis-'));
    cleanUps.push(() => rm(folder, { recursive: true }));
    const redis = await TestRedis.start(folder);
    cleanUps.push(() => redis.kill());
    const store = await openStore(redis);
    await store.run((client) => client.configSet('appendonly', 'no'));
    await rm(join(folder, 'appendonlydir'), { recursive: true });
    await store.run((client) => client.set('account', 'Ada'));
    await store.run((client) => client.sendCommand(['SAVE']));
    return { redis, store };
  }
  const restartAndRead = async ({
    redis,
    store,
  }: Awaited<ReturnType<typeof startWithSnapshot>>) => {
    await redis.restart();
    await eventually('it is connected', () => store.isAvailable());
    return store.run((client) => client.get('account'));
  };

  test('keeps its keys after what the advice says', async () => {
    const { redis, store } = await startWithSnapshot();
    const [advice = ''] = redisAdvice({ appendonly: 'no' });
    const [, command = ''] = /`redis-cli ([^`]+)`/.exec(advice) ?? [];
    await store.run((client) => client.sendCommand(command.split(' ')));
    await eventually('the file is written', async () => {
      const info = await store.run((client) => client.info('persistence'));
      return /aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0/.test(info);
    });
    expect(await restartAndRead({ redis, store })).toBe('Ada');
  });

  test('begins empty without that', async () => {
    expect(await restartAndRead(await startWithSnapshot())).toBeNull();
  });
});

test('while Redis hangs a limited number of commands wait for it, and further ones fail at once', async () => {
  const redis = await openRedis();
  const client = newRedisClient({ url: redis.url }, DEFAULT_TIMINGS.redis);
  client.on('error', () => {});
  await client.connect();
  cleanUps.push(() => client.destroy());
  redis.hang();
  const waiting = 20_000;
  let failed = 0;
  const asked = Array.from({ length: waiting }, () =>
    client.ping().catch(() => {
      failed += 1;
    }),
  );
  await expect(client.ping()).rejects.toThrow('full');
  expect(failed).toBe(0);
  redis.goOn();
  await Promise.all(asked);
  expect(failed).toBe(0);
  expect(await client.ping()).toBe('PONG');
});

test('signing keys that are withdrawn while Redis does not answer: who came with a token is thrown out afterwards', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url }, { redis: { retryAfterMs: 200 } });
  const response = await fetch(`${gateway.url}/api/tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ peer: 'alice', rooms: ['a'], publish: true, ttl_seconds: 60 }),
  });
  const { token } = (await response.json()) as { token: string };
  const alice = await connect(gateway, { api_key: undefined, token });
  await alice.next('joined');
  const store = await openStore(redis);
  const [key = ''] = await store.run((client) => client.lRange(SIGNING_KEYS, 0, 0));
  const { id } = JSON.parse(key) as { id: string };
  // The gateway hears of the change, and gets no answer when it asks which keys were withdrawn.
  await store.run((client) =>
    Promise.all([
      client.sAdd(WITHDRAWN_SIGNING_KEYS, id),
      client.publish(SIGNING_KEY_CHANGES, ''),
      client.sendCommand(['CLIENT', 'PAUSE', '2500', 'ALL']),
    ]),
  );
  expect(await alice.closed).toBe(4401);
});

test('commands are answered although this process stood still for longer than they may take', async () => {
  const commandTimeoutMs = 1000;
  const store = await openStore(await openRedis(), { commandTimeoutMs });
  const ping = store.run((client) => client.ping());
  const twice = store.run(async (client) => [await client.ping(), await client.ping()]);
  await new Promise((resolve) => setImmediate(resolve));
  // They have been sent.
  standStill(2 * commandTimeoutMs);
  expect(await Promise.all([ping, twice])).toEqual(['PONG', ['PONG', 'PONG']]);
});

test('a hundred commands that Redis does not answer are one line of the log', async () => {
  const server = await openRedis();
  const lines: string[] = [];
  const warn = (_fields: unknown, message: string) => void lines.push(message);
  const log = { ...Fastify().log, warn } as unknown as Parameters<typeof Redis.connect>[1];
  const timings = { ...DEFAULT_TIMINGS.redis, commandTimeoutMs: 300 };
  const store = await Redis.connect({ url: server.url }, log, timings);
  cleanUps.push(() => store.close());
  const hangs = () => store.run(() => new Promise<never>(() => {}));
  const outcomes = await Promise.allSettled(Array.from({ length: 100 }, hangs));
  expect(outcomes.every(({ status }) => status === 'rejected')).toBe(true);
  expect(lines.filter((line) => line === 'redis did not answer')).toHaveLength(1);
});

test('a hundred requests for /readyz at once are one command', async () => {
  const redis = await openRedis();
  const { url } = await openGateway({ REDIS_URL: redis.url }, { load: { scrapeEveryMs: 60_000 } });
  const store = await openStore(redis);
  const looks = async () => {
    const info = await store.run((client) => client.info('commandstats'));
    return Number(/cmdstat_set:calls=(\d+)/.exec(info)?.[1] ?? 0);
  };
  const before = await looks();
  const ask = async () => (await fetch(`${url}/readyz`)).status;
  const statuses = await Promise.all(Array.from({ length: 100 }, ask));
  expect(new Set(statuses)).toEqual(new Set([200]));
  // The gateway's own writes are a few.
  expect((await looks()) - before).toBeLessThan(20);
});
