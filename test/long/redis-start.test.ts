import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';
import { afterEach, expect, test, vi } from 'vitest';
import {
  commandsOn,
  CREATE,
  redisServersIn,
  runAccounts,
  runWorker,
  slowLoading,
  spawnAccounts,
} from '../support/data-folder.ts';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';

/** Many processes are started here, on a machine that may be busy with other tests. */
vi.setConfig({ testTimeout: 90_000 });

const cleanUps: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

const IMPATIENT = timingsOf({ redis: { startWithinMs: 2500, ownerWaitMs: 400 } });

async function start(environment: Record<string, string> = {}, dataDir?: string) {
  const gateway = await GatewayProcess.start({ USAGE_WORKERS: '0', ...environment }, dataDir);
  cleanUps.push(() => gateway.dispose());
  return gateway;
}

/** Lets a server listen until the end of the test, which ends its sockets, too. @returns its address, as that of a Redis */
async function urlOf(server: Server, sockets: Set<Socket>): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanUps.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server that accepts connections and says nothing, as a REDIS_URL. */
async function silentRedis(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
  });
  return urlOf(server, sockets);
}

test('a REDIS_URL that accepts and stays silent: gateway, worker and command end with the cause', async () => {
  const environment = { REDIS_URL: await silentRedis(), ...IMPATIENT };
  const gateways = [await start(environment), await start({ ...environment, PROCESSES: '2' })];
  const words =
    /Redis at redis:\/\/127\.0\.0\.1:\d+ cannot be reached: it accepts connections, but did not answer/;
  for (const ended of await Promise.all([
    spawnAccounts(environment, 'list'),
    runWorker(environment),
  ])) {
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(words) as string });
  }
  for (const gateway of gateways) {
    expect(await gateway.exited).toBe(1);
    expect(gateway.output).toMatch(words);
  }
});

/** Opens a way to a Redis by which its version begins with 6. @returns the URL */
async function outdatedRedis(): Promise<string> {
  const redis = await TestRedis.start();
  cleanUps.push(() => redis.kill());
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(new URL(redis.url).port), '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => [client, upstream].forEach((end) => end.destroy()));
    }
    client.pipe(upstream);
    upstream.on('data', (bytes: Buffer) => {
      const told = bytes.toString('latin1').replace(/(?<=\nredis_version:)\d/, '6');
      client.write(told, 'latin1');
    });
  });
  return urlOf(server, sockets);
}

test('a Redis older than 7 is refused by gateway, worker and command, which write nothing into it', async () => {
  const environment = { REDIS_URL: await outdatedRedis() };
  const gateways = [await start(environment), await start({ ...environment, PROCESSES: '2' })];
  const words = /Redis has version 6\.\S+, and Partyline needs 7\.0 or newer/;
  for (const ended of await Promise.all([
    spawnAccounts(environment, 'list'),
    runWorker(environment),
  ])) {
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(words) as string });
  }
  for (const gateway of gateways) {
    expect(await gateway.exited).toBe(1);
    expect(gateway.output).toMatch(words);
  }
  const client = createClient({ url: environment.REDIS_URL });
  cleanUps.push(() => client.destroy());
  await client.connect();
  expect(await client.keys('*')).toEqual([]);
});

test('a Redis that does not permit INFO is refused by gateway, worker and command, which write nothing into it', async () => {
  const redis = await TestRedis.start();
  cleanUps.push(() => redis.kill());
  const client = createClient({ url: redis.url });
  cleanUps.push(() => client.destroy());
  await client.connect();
  await client.aclSetUser('default', '-info');
  const environment = { REDIS_URL: redis.url };
  const gateway = await start(environment);
  const words = /Redis refuses the command INFO, which Partyline needs: NOPERM /;
  for (const ended of await Promise.all([
    spawnAccounts(environment, 'list'),
    runWorker(environment),
  ])) {
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(words) as string });
  }
  expect(await gateway.exited).toBe(1);
  expect(gateway.output).toMatch(words);
  expect(await client.keys('*')).toEqual([]);
});

/** A program that listens, accepts nothing, and says at which port. Its queue of connections holds two. */
const DEAF = `
const server = require('net').createServer();
server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => {
  process.stdout.write(String(server.address().port), () => process.kill(process.pid, 'SIGSTOP'));
});`;

test('a REDIS_URL whose packets are dropped: the command ends with the cause', async () => {
  const deaf = spawn(process.execPath, ['-e', DEAF], { stdio: ['ignore', 'pipe', 'inherit'] });
  cleanUps.push(() => void deaf.kill('SIGKILL'));
  const [port] = (await once(deaf.stdout, 'data')) as [Buffer];
  for (let queued = 0; queued < 4; queued += 1) {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => {});
    cleanUps.push(() => void socket.destroy());
  }
  const environment = { REDIS_URL: `redis://127.0.0.1:${String(port)}`, ...IMPATIENT };
  const { code, stderr } = await spawnAccounts(environment, 'list');
  expect(code).toBe(1);
  expect(stderr).toContain(
    'cannot be reached: no connection within 2500 ms: its name is not resolved',
  );
});

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  '%s ends a start that waits for Redis, with exit code 0',
  async (signal) => {
    const REDIS_URL = await silentRedis();
    for (const PROCESSES of ['1', '2']) {
      const gateway = await start({ REDIS_URL, PROCESSES, USAGE_WORKERS: '1' });
      await eventually('it runs', () => /(gateway|supervisor) starting/.test(gateway.output));
      gateway.child.kill(signal);
      expect(await gateway.exited).toBe(0);
      expect(gateway.output).not.toContain('could not start');
    }
  },
);

test('a data folder that cannot be made: gateway, worker and command end with the cause', async () => {
  const environment = { DATA_DIR: '/proc/x', ...IMPATIENT };
  const gateway = await start(environment, '/proc/x');
  expect(await gateway.exited).toBe(1);
  expect(gateway.output).toMatch(/could not start\. DATA_DIR \/proc\/x cannot be used: .*ENOENT/);
  const [command, worker] = await Promise.all([
    spawnAccounts(environment, 'list'),
    runWorker(environment),
  ]);
  expect(command).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('There is no folder /proc/x') as string,
  });
  expect(worker).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('/proc/x/redis.sock cannot be reached') as string,
  });
});

const KEYS = 12_000;
const LOAD_US_PER_KEY = 250;

test('a command on the folder of a gateway that uses REDIS_URL starts no Redis there', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'partyline-'));
  cleanUps.push(() => rm(dataDir, { recursive: true, force: true }));
  await writeFile(join(dataDir, 'demo-key'), 'pl_key\n');
  const { code, stdout, stderr } = await runAccounts({ DATA_DIR: dataDir }, ...CREATE);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(new RegExp(`^DATA_DIR ${dataDir} .* set DATA_DIR or REDIS_URL\\.\n$`));
  expect((await readdir(dataDir)).toSorted()).toEqual(['demo-key', 'redis.lock']);
});

test('a command says that its Redis is new, once', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'partyline-'));
  cleanUps.push(() => rm(dataDir, { recursive: true, force: true }));
  const first = await runAccounts({ DATA_DIR: dataDir }, ...CREATE);
  const words = `REDIS_URL is not set: this works on a new Redis in ${dataDir} (DATA_DIR).\n`;
  expect(first).toMatchObject({ code: 0, stderr: words });
  const second = await runAccounts({ DATA_DIR: dataDir }, ...CREATE);
  expect(second).toMatchObject({ code: 0, stderr: '' });
});

test('a Redis that loads is waited for as long as it gets on, and nobody starts another', async () => {
  const gateway = await start();
  const { api_key: apiKey } = await gateway.ready();
  const { dataDir } = gateway;
  const client = createClient({ socket: { path: join(dataDir, 'redis.sock'), tls: false } });
  await client.connect();
  await Promise.all(Array.from({ length: KEYS }, (_, key) => client.set(`key ${key}`, key)));
  await client.close();
  const created = await runAccounts({ DATA_DIR: dataDir }, ...CREATE);
  const { id } = JSON.parse(created.stdout) as { id: number };
  gateway.child.kill('SIGTERM');
  expect(await gateway.exited).toBe(0);
  const programs = await mkdtemp(join(tmpdir(), 'partyline-programs-'));
  cleanUps.push(() => rm(programs, { recursive: true }));
  const slow = {
    ...(await slowLoading(programs, LOAD_US_PER_KEY)),
    // Less than it takes altogether; a slow machine loads on between two looks.
    ...timingsOf({ redis: { startWithinMs: 2500, reportLoadingMs: 300, ownerWaitMs: 400 } }),
  };
  const again = await start(slow, dataDir);
  await eventually('it loads', () => again.logged('redis loading its data').length > 0);
  const servers = await redisServersIn(dataDir);
  expect(servers).toHaveLength(1);
  const second = await start(slow, dataDir);
  const commands = commandsOn(String(id));
  const ended = await Promise.all(
    commands.map((words) =>
      (words[0] === 'list' ? spawnAccounts : runAccounts)({ DATA_DIR: dataDir, ...slow }, ...words),
    ),
  );
  // There is no such key to revoke, and whatever comes after "close" finds the account closed.
  const refused = { code: 2, stderr: expect.stringMatching(/closed permanently|no key/) as string };
  for (const end of ended) {
    expect(end).toBeOneOf([expect.objectContaining({ code: 0 }), expect.objectContaining(refused)]);
  }
  const list = await runAccounts({ DATA_DIR: dataDir }, 'list', '--json');
  const ids = (JSON.parse(list.stdout) as { id: number }[]).map((account) => account.id);
  expect(ids).toHaveLength(3);
  expect(new Set(ids)).toEqual(new Set([1, id, id + 1]));
  expect(await second.exited).toBe(1);
  expect(second.output).toContain('another gateway uses');
  expect(await again.ready()).toMatchObject({ account_id: 1, api_key: apiKey });
  expect(await redisServersIn(dataDir)).toEqual(servers);
});

/** Returns the redis-servers of a gateway when it has killed its own and serves requests again. */
async function untilReplaced(gateway: GatewayProcess): Promise<number[]> {
  await eventually('it is killed', () => gateway.logged('redis-server hangs; killed').length > 0);
  const { url, api_key: apiKey } = await gateway.ready();
  const headers = { authorization: `Bearer ${apiKey}` };
  await eventually('it is there again', async () => (await fetch(`${url}/api/me`, { headers })).ok);
  return redisServersIn(gateway.dataDir);
}

test('an own Redis that hangs is killed and started again, with all that was there', async () => {
  const gateway = await start(
    timingsOf({ redis: { checkServerEveryMs: 150, restartServerAfterMs: 200 } }),
  );
  await gateway.ready();
  const [server] = await redisServersIn(gateway.dataDir);
  process.kill(server!, 'SIGSTOP');
  const servers = await untilReplaced(gateway);
  expect(servers).toHaveLength(1);
  expect(servers).not.toContain(server);
});

test('an own Redis that answers its gateway is seldom probed, and started again once its socket is gone', async () => {
  const gateway = await start(
    timingsOf({
      redis: { checkServerEveryMs: 200, restartServerAfterMs: 200 },
      nodes: { beatEveryMs: 30 },
    }),
  );
  await gateway.ready();
  const [server] = await redisServersIn(gateway.dataDir);
  const socket = join(gateway.dataDir, 'redis.sock');
  const client = createClient({ socket: { path: socket, tls: false } });
  client.on('error', () => {});
  cleanUps.push(() => client.destroy());
  await client.connect();
  const connections = async () =>
    Number(/total_connections_received:(\d+)/.exec(await client.info('stats'))?.[1]);
  const before = await connections();
  // 15 checks, of which one or two probe it. The machine may be busy.
  const fromMs = performance.now();
  await delay(3000);
  const checks = (performance.now() - fromMs) / 200;
  expect((await connections()) - before).toBeLessThan((2 / 3) * checks);

  await rm(socket);
  const servers = await untilReplaced(gateway);
  expect(servers).toHaveLength(1);
  expect(servers).not.toContain(server);
});
