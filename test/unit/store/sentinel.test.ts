import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { createClient } from 'redis';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { readSettings } from '../../../config/settings.ts';
import { parseSentinelUrl } from '../../../config/sentinel-url.ts';
import { choosePrimary } from '../../../src/store/choose-primary.ts';
import { nameOf } from '../../../src/store/client.ts';
import { redisAddressOf } from '../../../src/store/open-redis.ts';
import { redisAdvice } from '../../../src/store/redis-advice.ts';
import { Sentinel, type SentinelAnswer } from '../../../src/store/sentinel.ts';

const watchedOf = (url: string) => {
  const address = redisAddressOf({ REDIS_URL: url, DATA_DIR: 'data' });
  return 'watched' in address ? address.watched : undefined;
};

describe('REDIS_URL with sentinels', () => {
  test('names sentinels, the primary, credentials and a database', () => {
    expect(
      watchedOf('redis+sentinel://ada:p%40ss%3A%2F@a:1,10.0.0.2:2,[fd00::3]:3/main/4'),
    ).toEqual({
      sentinels: [
        { host: 'a', port: 1 },
        { host: '10.0.0.2', port: 2 },
        { host: 'fd00::3', port: 3 },
      ],
      name: 'main',
      isTls: false,
      username: 'ada',
      password: 'p@ss:/',
      database: 4,
    });
    expect(watchedOf('rediss+sentinel://:word@a,[::1]/main')).toEqual({
      sentinels: [
        { host: 'a', port: 26379 },
        { host: '::1', port: 26379 },
      ],
      name: 'main',
      isTls: true,
      username: '',
      password: 'word',
      database: 0,
    });
    expect(watchedOf('redis://a:1/0')).toBeUndefined();
  });

  test.each([
    'redis+sentinel://a:1',
    'redis+sentinel://a:1/',
    'redis+sentinel:///main',
    'redis+sentinel://a:1,/main',
    'redis+sentinel://a:0/main',
    'redis+sentinel://a:65536/main',
    'redis+sentinel://a:b/main',
    'redis+sentinel://x@y@a:1/main',
    'redis+sentinel://%zz@a:1/main',
    'redis+sentinel://u:%zz@a:1/main',
    'redis+sentinel://u:p:q@a:1/main',
    'redis+sentinel://a:1/main/x',
    'redis+sentinel://a:1/main?x=1',
    'redis+sentinel://a b:1/main',
  ])('%s is refused with the form that is accepted', (url) => {
    expect(parseSentinelUrl(url)).toBeUndefined();
    expect(() => readSettings({ REDIS_URL: url })).toThrow(/REDIS_URL must be of the form redis\+/);
  });

  test('is told without its password, and a password for sentinels is refused without them', () => {
    const url = 'rediss+sentinel://ada:secret@a:1,[fd00::3]/main/2';
    const address = redisAddressOf({ REDIS_URL: url, DATA_DIR: 'data', SENTINEL_PASSWORD: 'word' });
    expect(nameOf(address)).toBe('rediss+sentinel://a:1,[fd00::3]:26379/main');
    const SENTINEL_PASSWORD = 'word';
    expect(readSettings({ REDIS_URL: url, SENTINEL_PASSWORD })).toMatchObject({
      SENTINEL_PASSWORD,
    });
    expect(() => readSettings({ REDIS_URL: 'redis://a', SENTINEL_PASSWORD })).toThrow(
      'SENTINEL_PASSWORD needs',
    );
  });
});

const answer = (host: string, epoch: number): SentinelAnswer => ({
  host,
  port: 6379,
  epoch,
  downAfterMs: 5000,
});

describe('choosePrimary()', () => {
  const known = answer('b', 2);

  test('takes the newest answer, whoever else disagrees', () => {
    const answers = [answer('a', 1), answer('b', 2), answer('a', 1)];
    expect(choosePrimary(answers, undefined, 3)).toEqual(known);
    expect(choosePrimary([answer('a', 1)], undefined, 3)).toEqual(answer('a', 1));
    expect(choosePrimary([answer('c', 3)], known, 3)).toEqual(answer('c', 3));
  });

  test('ignores sentinels that were cut off during a failover, and follows those that were set up anew', () => {
    expect(choosePrimary([answer('a', 1)], known, 3)).toBeUndefined();
    expect(choosePrimary([answer('a', 1), answer('a', 1)], known, 3)).toEqual(answer('a', 1));
    expect(choosePrimary([answer('a', 1)], known, 1)).toEqual(answer('a', 1));
    expect(choosePrimary([], known, 3)).toBeUndefined();
    expect(choosePrimary([], undefined, 3)).toBeUndefined();
    // Most answer, but they do not agree.
    expect(choosePrimary([answer('a', 1), answer('c', 1)], known, 3)).toBeUndefined();
    expect(choosePrimary([answer('c', 1), answer('a', 0), answer('a', 0)], known, 3)).toEqual(
      answer('a', 0),
    );
  });

  test('of answers that are as new as what is known, stays with the server that is known unless most name another', () => {
    const [same, other] = [known, answer('c', 2)];
    expect(choosePrimary([other, same], known, 3)).toEqual(same);
    expect(choosePrimary([other], known, 3)).toBeUndefined();
    expect(choosePrimary([same, other, other], known, 3)).toEqual(other);
    expect(choosePrimary([same, answer('a', 1), answer('a', 1)], known, 3)).toEqual(same);
    expect(choosePrimary([other], known, 1)).toEqual(other);
    expect(choosePrimary([same, other, other], undefined, 3)).toEqual(other);
  });
});

test('advice on a Redis that fails over: replicas for writes, and sentinels that notice soon', () => {
  const settings = { 'maxmemory-policy': 'noeviction', appendonly: 'yes' };
  const isolated = { ...settings, 'min-replicas-to-write': '0' };
  expect(redisAdvice(isolated)).toEqual([]);
  expect(redisAdvice(isolated, { downAfterMs: 30_000 })).toEqual([
    expect.stringMatching('^min-replicas-to-write is 0: .*; set 1$'),
    expect.stringMatching('^down-after-milliseconds of its sentinels is 30000: .*; set 5000$'),
  ]);
  const safe = { ...settings, 'min-replicas-to-write': '1' };
  expect(redisAdvice(safe, { downAfterMs: 5000 })).toEqual([]);
});

const ASKING = { name: 'main', isTls: false, password: '', withinMs: 5000 };

/** Opens a server that answers each command with OK, and questions of clients with a primary. */
async function openSentinel() {
  const said: string[] = [];
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      // Each command is a list of its words.
      for (const command of bytes
        .toString()
        .split(/^\*\d+\r\n/m)
        .slice(1)) {
        const words = command.split('\r\n').filter((line) => line !== '' && !line.startsWith('$'));
        said.push(words.join(' '));
        socket.write(ANSWERS[words.slice(0, 2).join(' ')] ?? '+OK\r\n');
      }
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  return { said, address: { host: '127.0.0.1', port: (server.address() as AddressInfo).port } };
}

const list = (...words: string[]) =>
  `*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join('')}`;
const ANSWERS: Record<string, string> = {
  'SENTINEL MASTER': list('config-epoch', '7', 'down-after-milliseconds', '5000'),
  'SENTINEL GET-MASTER-ADDR-BY-NAME': list('10.0.0.1', '6379'),
};

test('each sentinel is asked with its own password, and answers in lists', async () => {
  const [first, second] = await Promise.all([openSentinel(), openSentinel()]);
  const asked = [
    new Sentinel(first.address, { ...ASKING, password: 'word' }),
    new Sentinel(second.address, { ...ASKING, name: 'other' }),
  ];
  onTestFinished(() => asked.forEach((sentinel) => sentinel.close()));
  for (const sentinel of asked) {
    const primary = { host: '10.0.0.1', port: 6379, epoch: 7, downAfterMs: 5000 };
    expect(await sentinel.ask()).toEqual(primary);
  }
  expect(first.said).toContain('AUTH word');
  expect(first.said).toContain('SENTINEL MASTER main');
  expect(second.said.filter((words) => /AUTH|HELLO/.test(words))).toEqual([]);
  expect(second.said).toContain('SENTINEL MASTER other');
});

test('sentinels that are down, and are asked again and again, define the commands of clients once', async () => {
  const sentinels = ['127.0.0.1', '127.0.0.2', '127.0.0.3'].map(
    (host) => new Sentinel({ host, port: 1 }, ASKING),
  );
  /** Returns the prototype of a client that has the commands as methods. */
  const commandsOf = (client: object): object =>
    Object.hasOwn(client, 'hGetAll') ? client : commandsOf(Object.getPrototypeOf(client) as object);
  const base = Object.getPrototypeOf(commandsOf(createClient())) as { connect: () => unknown };
  using connects = vi.spyOn(base, 'connect');
  for (let i = 0; i < 10; i += 1)
    await expect(sentinels[i % 3]!.ask()).rejects.toThrow('ECONNREFUSED');
  const clients = connects.mock.contexts as object[];
  expect(new Set(clients).size).toBe(10);
  expect(new Set(clients.map(commandsOf)).size).toBe(1);
});

test('Sentinel.close() while it connects: the connection does not outlive it', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sentinel = new Sentinel({ host: '127.0.0.1', port }, ASKING);
  const connected = once(server, 'connection') as Promise<[Socket]>;
  const asked = sentinel.ask();
  sentinel.close();
  const [socket] = await connected;
  socket.resume();
  await Promise.all([once(socket, 'close'), expect(asked).rejects.toBeInstanceOf(Error)]);
  server.close();
});
