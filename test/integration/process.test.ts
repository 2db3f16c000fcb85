import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { VERSION } from '../../src/version.ts';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess, timingsOf, untilEnded } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';
import { startArguments } from '../support/start-arguments.ts';

const started: GatewayProcess[] = [];
afterEach(async () => {
  for (const gateway of started.splice(0)) await gateway.dispose();
});

async function start(environment?: Record<string, string>, dataDir?: string) {
  const gateway = await GatewayProcess.start({ USAGE_WORKERS: '0', ...environment }, dataDir);
  started.push(gateway);
  return gateway;
}

const connect = (url: string, apiKey: string) =>
  TestClient.connect(url, { room: 'a', peer: 'p', api_key: apiKey, audio: 'opus' });

describe('a gateway that runs', () => {
  let gateway: GatewayProcess;
  beforeAll(async () => {
    const processes = { firstRestartMs: 100, aliveEveryMs: 100, checkEveryMs: 300 };
    gateway = await GatewayProcess.start(timingsOf({ processes }));
  });
  afterAll(() => gateway.dispose());

  test('prints an address, a key, and a line for machines', async () => {
    const ready = await gateway.ready();
    expect(ready).toEqual({
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      account_id: 1,
      api_key: expect.stringMatching(/^pl_[\w-]{43}$/),
    });
    expect(gateway.output).toContain(`Open ${ready.url}`);
    expect((await fetch(ready.url)).headers.get('content-type')).toContain('text/html');
  });

  test('tells its version in the first line of the log, in /metrics and /healthz, and on the page of the API', async () => {
    const { url } = await gateway.ready();
    const [first = ''] = gateway.output.split('\n');
    expect(JSON.parse(first)).toMatchObject({ msg: 'gateway starting', version: VERSION });
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toContain(`partyline_build_info{version="${VERSION}"} 1\n`);
    const health = await (await fetch(`${url}/healthz`)).json();
    expect(health).toEqual({ status: 'ok', version: VERSION });
    const page = (await (await fetch(`${url}/api/docs/json`)).json()) as object;
    expect(page).toMatchObject({ info: { version: VERSION } });
  });

  test('starts a usage worker again that gets a signal, and goes on', async () => {
    const { url } = await gateway.ready();
    const workers = () => gateway.logged('usage worker started').map(({ pid }) => pid as number);
    await eventually('it runs', () => workers().length === 1);
    process.kill(workers()[0]!, 'SIGTERM');
    await eventually('another runs', () => workers().length === 2);
    expect(gateway.logged('process ended; restarting')).toMatchObject([
      { process: 'usage worker', how: 'exit code 0' },
    ]);
    expect(gateway.logged('drain began')).toEqual([]);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
  });

  test('kills a usage worker that hangs, and starts another', async () => {
    const workers = () => gateway.logged('usage worker started').map(({ pid }) => pid as number);
    await eventually('it runs', () => workers().length > 0);
    const before = workers();
    const hanging = before.at(-1)!;
    process.kill(hanging, 'SIGSTOP');
    await eventually('another runs', () => workers().length === before.length + 1, 30_000);
    await untilEnded([hanging]);
    expect(gateway.logged('process hangs; killed')).toMatchObject([
      { process: 'usage worker', silentMs: 3000 },
    ]);
  });

  test('keeps a second one off its folder, and off its port, in a sentence', async () => {
    const { port } = new URL((await gateway.ready()).url);
    const [onFolder, onPort] = await Promise.all([
      start(timingsOf({ redis: { ownerWaitMs: 300 } }), gateway.dataDir),
      start({ PORT: port }),
    ]);
    expect(await onFolder.exited).toBe(1);
    expect(onFolder.output).toMatch(/another gateway uses .*set DATA_DIR or REDIS_URL/);
    expect(await onPort.exited).toBe(1);
    expect(onPort.output).toMatch(
      /Partyline could not start\. HOST \S+ and PORT \d+ cannot be used: .*EADDRINUSE/,
    );
    expect(onPort.output).not.toMatch(/\n\s+at /);
  });
});

test.each([
  ['1', 'no-such-host.invalid', /cannot be used: .*(ENOTFOUND|EAI_AGAIN)/],
  ['2', 'no-such-host.invalid', /cannot be used: .*(ENOTFOUND|EAI_AGAIN)/],
  ['1', '203.0.113.9', /and PORT 0 cannot be used: .*EADDRNOTAVAIL/],
  ['2', '203.0.113.9', /and PORT 0 cannot be used: .*EADDRNOTAVAIL/],
])('with PROCESSES=%s, the HOST %s cannot be used, and is named', async (PROCESSES, HOST, why) => {
  const gateway = await start({ HOST, PROCESSES });
  expect(await gateway.exited).toBe(1);
  expect(gateway.output).toContain(`Partyline could not start. HOST ${HOST} `);
  expect(gateway.output).toMatch(why);
});

test('its own redis-server is killed: it is started again, with all that was there, and calls go on', async () => {
  const gateway = await start();
  const { url, api_key: apiKey } = await gateway.ready();
  const client = await connect(url, apiKey);
  await client.next('joined');
  const readyz = async () => (await fetch(`${url}/readyz`)).status;
  const killed = await gateway.descendantPid('redis-server');
  process.kill(killed, 'SIGKILL');
  await eventually('it is missed', async () => (await readyz()) === 503);
  await eventually('it is there again', async () => (await readyz()) === 200);
  expect(gateway.logged('redis-server ended; restarting')).toHaveLength(1);
  const headers = { authorization: `Bearer ${apiKey}` };
  expect((await fetch(`${url}/api/me`, { headers })).status).toBe(200);
  expect(client.messages.map(({ type }) => type)).not.toContain('error');
  client.vanish();
  gateway.child.kill('SIGTERM');
  expect(await gateway.exited).toBe(0);
  await expect(gateway.descendantPid('redis-server')).rejects.toThrow('there is no');
});

test('a gateway that stood still for longer than a client may be silent keeps its clients when it goes on', async () => {
  const silentAfterMs = 2000;
  const sessions = { beatEveryMs: 100, heartbeatEveryMs: 300, silentAfterMs };
  const gateway = await start(timingsOf({ sessions }));
  const { url, api_key: apiKey } = await gateway.ready();
  const query = { room: 'a', api_key: apiKey, audio: 'opus' };
  const sending = await TestClient.connect(url, { ...query, peer: 'sending' });
  const listening = await TestClient.connect(url, { ...query, peer: 'listening' });
  await Promise.all([sending.next('joined'), listening.next('joined')]);
  const pids = [gateway.child.pid!, ...(await gateway.descendantPids())];
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  const from = sending.messages.length;
  sending.send({ type: 'configure', delivery: 'forward' });
  await delay(1.25 * silentAfterMs);
  for (const pid of pids) process.kill(pid, 'SIGCONT');
  const answer = await Promise.race([sending.next('configured', from), sending.closed]);
  expect(answer).toMatchObject({ type: 'configured' });
  await listening.ask({ type: 'configure', delivery: 'forward' }, 'configured');
  expect(gateway.logged('session ended')).toEqual([]);
  sending.vanish();
  listening.vanish();
});

test.each([
  ['nobody listens', 'redis://:secret-word@127.0.0.1:1', 'ECONNREFUSED'],
  ['its name is not known', 'redis://:secret-word@nowhere.invalid:6379', 'nowhere.invalid'],
])('REDIS_URL, and %s: it ends, and says why without the password', async (_, url, why) => {
  const impatient = timingsOf({ redis: { longestReconnectMs: 50 } });
  const both = await Promise.all(
    ['1', '2'].map((PROCESSES) => start({ REDIS_URL: url, PROCESSES, ...impatient })),
  );
  for (const gateway of both) {
    expect(await gateway.exited).toBe(1);
    expect(gateway.output).toMatch(/could not start\. Redis at redis:\S+ cannot be reached: /);
    expect(gateway.output).toContain(why);
    expect(gateway.output).not.toContain('secret-word');
  }
});

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s: clients are told, everything that was started ends, exit code 0',
  async (signal) => {
    const gateway = await start({ DRAIN_MS: '300', USAGE_WORKERS: '1' });
    const { url, api_key: apiKey } = await gateway.ready();
    const client = await connect(url, apiKey);
    await client.next('joined');
    const children = await gateway.descendantPids();
    // Redis, a usage worker, a media worker.
    expect(children).toHaveLength(3);
    gateway.child.kill(signal);
    expect(await client.closed).toBe(1012);
    expect(await client.next('error')).toMatchObject({ code: 'draining', retryable: true });
    expect(await gateway.exited).toBe(0);
    await untilEnded(children);
  },
);

test('PROCESSES, and a Redis that hangs: a process that is killed at the end of its drain has left its minutes', async () => {
  const redis = await TestRedis.start();
  try {
    const gateway = await start({
      ...timingsOf({ processes: { killAfterMs: 5000 }, redis: { commandTimeoutMs: 1000 } }),
      REDIS_URL: redis.url,
      PROCESSES: '2',
      DRAIN_MS: '0',
    });
    const { url, api_key: apiKey } = await gateway.ready();
    const client = await connect(url, apiKey);
    await client.next('joined');
    redis.hang();
    gateway.child.kill('SIGTERM');
    await gateway.exited;
    const [killed] = gateway.logged('process not ended in time; killed');
    expect(killed).toMatchObject({ endsWithinMs: 5000 });
    const files = (await readdir(gateway.dataDir)).filter((name) => name.startsWith('unwritten-'));
    expect(files).toHaveLength(1);
    client.vanish();
  } finally {
    await redis.kill();
  }
});

test('Ctrl-C, which a terminal sends to all processes in the foreground: it ends as quietly as by SIGINT', async () => {
  const gateway = await GatewayProcess.start({ MEDIA_WORKERS: '2', DRAIN_MS: '300' }, undefined, [
    'setsid',
  ]);
  started.push(gateway);
  const { url, api_key: apiKey } = await gateway.ready();
  const client = await connect(url, apiKey);
  await client.next('joined');
  const children = await gateway.descendantPids();
  process.kill(-gateway.child.pid!, 'SIGINT');
  expect(await client.closed).toBe(1012);
  expect(await gateway.exited).toBe(0);
  await untilEnded(children);
  const faults = gateway.output.split('\n').filter((line) => /"level":[4-6]0/.test(line));
  expect(faults).toEqual([]);
});

test('SIGKILL: its media workers and its Redis end too; the next start has the same account', async () => {
  const gateway = await start({ USAGE_WORKERS: '1' });
  const before = await gateway.ready();
  const children = await gateway.descendantPids();
  gateway.child.kill('SIGKILL');
  await untilEnded(children);
  const again = await start({}, gateway.dataDir);
  expect(await again.ready()).toMatchObject({ account_id: 1, api_key: before.api_key });
});

test('--lan: other devices are served over TLS at the addresses that are printed, an unknown argument is refused', async () => {
  const command = (argument: string) => [process.execPath, ...startArguments(), argument];
  const own = { USAGE_WORKERS: '0' };
  const [gateway, refused] = await Promise.all([
    GatewayProcess.startWith(command('--lan'), own),
    GatewayProcess.startWith(command('--lam'), own),
  ]);
  started.push(gateway, refused);
  expect(await refused.exited).toBe(1);
  expect(refused.output).toContain("could not start. Unknown option '--lam'");
  const ready = await gateway.ready();
  expect(ready.url).toMatch(/^https:\/\/localhost:\d+$/);
  const ca = await readFile(join(gateway.dataDir, 'lan-cert.pem'));
  const urls = [ready.url, ...(ready.lan_urls ?? [])];
  for (const url of urls) {
    expect(gateway.output).toContain(`${url}\n`);
    const query = { room: 'a', peer: url, api_key: ready.api_key };
    const client = await TestClient.connect(url, query, { ca });
    await client.next('joined');
    client.vanish();
  }
  const { port } = new URL(ready.url);
  await expect(fetch(`http://localhost:${port}`)).rejects.toThrow('fetch failed');
});

test('wrong settings, and a media worker program that is not there, are told all at once', async () => {
  const program = '/nonexistent/mediasoup-worker';
  const gateway = await start({ PORT: 'x', MEDIA_WORKERS: '0', MEDIASOUP_WORKER_BIN: program });
  expect(await gateway.exited).toBe(1);
  expect(gateway.output).toMatch(/PORT must be[^]*MEDIA_WORKERS must be/);
  expect(gateway.output).toContain(program);
});

test('neither API key nor token is in a log line, whatever goes wrong', async () => {
  const gateway = await start({ LOG_LEVEL: 'trace' });
  const { url, api_key: apiKey } = await gateway.ready();
  const client = await connect(url, apiKey);
  await client.next('joined');
  client.send(`{${apiKey}`);
  client.send({ type: apiKey });
  await client.close();
  const tooMany = await TestClient.connect(url, { room: '', peer: 'p', api_key: apiKey });
  await tooMany.closed;
  const suspect = await TestClient.connect(url, { room: 'a', peer: 'p', api_key: `${apiKey}x` });
  await suspect.closed;
  const query = `?api_key=${apiKey}`;
  const headers = { authorization: `Bearer ${apiKey}` };
  for (const path of [`/ws${query}`, `/nothing${query}`, `/api/me${query}`]) {
    expect(await (await fetch(url + path, { headers })).text()).not.toContain(apiKey);
  }
  await fetch(`${url}/api/me${query}`, { method: 'POST', headers, body: '{' });
  const asked = await fetch(`${url}/api/tokens`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ peer: 'p', rooms: ['a'], ttl_seconds: 60, publish: true }),
  });
  const { token } = (await asked.json()) as { token: string };
  for (const given of [{ token }, { token, room: 'b' }, { token: `${token}x` }]) {
    const tried = await TestClient.connect(url, { room: 'a', peer: 'p', ...given });
    await tried.until('an answer', () => tried.messages[0]);
    await tried.close();
  }
  gateway.child.kill('SIGTERM');
  await gateway.exited;
  expect(gateway.output).not.toContain(token.slice(-20));
  const announced = gateway.output
    .split('\n')
    .filter((line) => /^(Demo account|Join a room|ready) /.test(line));
  expect(announced).toHaveLength(3);
  expect(gateway.output.split(apiKey)).toHaveLength(announced.length + 1);
});
