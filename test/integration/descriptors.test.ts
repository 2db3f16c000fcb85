import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { get as getPlain } from 'node:http';
import { get as getOverTls } from 'node:https';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { connect, enter, openGateway, openRedis, openStore, cleanUps } = useStack();

async function start(environment: Record<string, string> = {}, commandBefore: string[] = []) {
  const gateway = await GatewayProcess.start(environment, undefined, commandBefore);
  cleanUps.push(() => gateway.dispose());
  const { url, api_key: apiKey } = await gateway.ready();
  return { gateway, url, apiKey };
}

/** Connections beyond what the gateway accepts. */
const ATTACKERS = 300;
const FEW_DESCRIPTORS = ['prlimit', '--nofile=160:160'];
const OFTEN = timingsOf({ load: { sampleEveryMs: 100 } });

/** Opens bare TCP connections, which send nothing. */
function attack(url: string, count: number): Socket[] {
  const { hostname, port } = new URL(url);
  return Array.from({ length: count }, () => {
    const socket = createConnection(Number(port), hostname);
    cleanUps.push(() => void socket.destroy());
    return socket.on('error', () => {}).resume();
  });
}

const isRefusing = (gateway: GatewayProcess) =>
  gateway.logged('connections closed: too few descriptors left').length === 1;

/** Asks over a connection of its own, as a prober does. */
async function statusOf(url: string): Promise<number | undefined> {
  const request = url.startsWith('https:')
    ? getOverTls(url, { agent: false, rejectUnauthorized: false })
    : getPlain(url, { agent: false });
  const [response] = await once(request, 'response');
  response.resume();
  return response.statusCode;
}

/** Probes five times, each time after further attackers have come. */
async function probe(url: string): Promise<(number | undefined)[]> {
  const statuses = [];
  for (let time = 0; time < 5; time += 1) {
    attack(url, 20);
    statuses.push(await statusOf(`${url}/healthz`), await statusOf(`${url}/metrics`));
  }
  return statuses;
}

const ALL_ANSWERED = Array.from({ length: 10 }, () => 200);

test('300 connections where there are 160 descriptors: calls go on, health checks are answered, and newcomers are let in afterwards', async () => {
  const { gateway, ...node } = await start(OFTEN, FEW_DESCRIPTORS);
  const [limit] = gateway.output.match(/file descriptors allow \d+ clients/) ?? [];
  expect(Number(limit?.match(/\d+/))).toBeGreaterThan(20);
  const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];

  const attackers = attack(node.url, ATTACKERS);
  await eventually('connections are not accepted', () => isRefusing(gateway));
  expect(await probe(node.url)).toEqual(ALL_ANSWERED);
  const tone = await opusTone(1000, 0.5, 500);
  await play(ada, tone);
  await eventually('every frame', () => bob.frames.length === tone.length);
  // It looks at its memory meanwhile, which takes a descriptor.
  expect(gateway.child.exitCode).toBe(null);
  expect(await ada.ask({ type: 'join', room: 'another' }, 'joined')).toMatchObject({ peers: [] });

  for (const socket of attackers) socket.destroy();
  await eventually('a newcomer is let in', async () => {
    try {
      const client = await connect(node, { peer: 'cem' });
      return (await client.until('word', () => client.messages[0])).type === 'welcome';
    } catch {
      return false;
    }
  });
  const metrics = await (await fetch(`${node.url}/metrics`)).text();
  const [, count] = /^partyline_connections_not_accepted_total (\d+)/m.exec(metrics) ?? [];
  expect(Number(count)).toBeGreaterThan(100);
});

/** Attacks on and on, so that a descriptor that becomes free is asked for at once. */
function keepAttacking(url: string): void {
  attack(url, ATTACKERS);
  const timer = setInterval(() => attack(url, 5), 20);
  cleanUps.push(() => clearInterval(timer));
}

test('a reserve is kept while strangers take every descriptor: for Redis, media workers, pipes, rooms, browsers, and health checks', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const pipes = { pipes: { retryAfterMs: 100 } };
  const few = { REDIS_URL: redis.url, USAGE_WORKERS: '0', ...OFTEN };
  const { gateway, ...node } = await start(few, FEW_DESCRIPTORS);
  const other = await openGateway({ REDIS_URL: redis.url }, pipes);
  const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];
  const figure = async (name: string) => {
    const metrics = await (await fetch(`${node.url}/metrics`)).text();
    return Number(new RegExp(`^partyline_${name} (\\d+)`, 'm').exec(metrics)?.[1]);
  };
  const tone = await opusTone(1000, 0.5, 500);
  const expectHeard = async (listener: typeof bob) => {
    const before = listener.frames.length;
    await play(ada, tone);
    await eventually('every frame', () => listener.frames.length - before === tone.length);
  };
  keepAttacking(node.url);
  await eventually('connections are not accepted', () => isRefusing(gateway));

  const reconnects = () => gateway.logged('redis connected').length;
  const before = reconnects();
  for (const kind of ['normal', 'pubsub'])
    await store.run((client) => client.sendCommand(['CLIENT', 'KILL', 'TYPE', kind]));
  await eventually('Redis is reached again', () => reconnects() > before);
  await eventually('it answers', async () => (await figure('redis_up')) === 1);
  expect(await bob.ask({ type: 'join', room: 'another' }, 'joined')).toMatchObject({ peers: [] });
  await bob.ask({ type: 'join', room: 'a' }, 'joined');

  process.kill(await gateway.descendantPid('mediasoup-worke'), 'SIGKILL');
  const starts = () => gateway.logged('media worker started').length;
  await eventually('the media worker is replaced', () => starts() === 2);
  await expectHeard(bob);

  const cem = await enter(other, 'cem');
  await eventually('the nodes are piped', async () => (await figure('pipes')) === 1);
  await expectHeard(cem);

  const browser = { type: 'join', room: 'a', media: 'webrtc' };
  const { webrtc } = await bob.ask(browser, 'joined');
  expect(webrtc).toBeDefined();
  expect(await probe(node.url)).toEqual(ALL_ANSWERED);
  const refused = await figure('connections_not_accepted_total');
  await eventually(
    'they still take what they get',
    async () => (await figure('connections_not_accepted_total')) > refused,
  );
  expect(gateway.child.exitCode).toBe(null);
});

const fixture = (name: string) => join(import.meta.dirname, '../fixtures', name);

test.each([
  ['over TLS', { TLS_CERT: fixture('tls-cert.pem'), TLS_KEY: fixture('tls-key.pem') }],
  ['beside a proxy', { TRUST_PROXY: '192.0.2.1' }],
])('health checks %s are answered while others hold all connections', async (_name, settings) => {
  const { gateway, url } = await start({ ...OFTEN, ...settings }, FEW_DESCRIPTORS);
  attack(url, ATTACKERS);
  await eventually('connections are not accepted', () => isRefusing(gateway));
  expect(await probe(url)).toEqual(ALL_ANSWERED);
});

const limit = (pid: number, files: number) =>
  execFileSync('prlimit', ['--pid', String(pid), `--nofile=${files}:`]);

test.each([
  ['an address that is set', { RTC_LISTEN_IP: '127.0.0.1' }],
  ['the addresses of the machine', {}],
])(
  'a media worker on %s that dies when no descriptor is left is replaced later, and calls go on',
  async (_name, settings) => {
    const soon = timingsOf({
      load: { scrapeEveryMs: 1 },
      mediaWorkers: { firstReplacementMs: 50, longestReplacementMs: 200 },
    });
    const { gateway, ...node } = await start({ USAGE_WORKERS: '0', ...soon, ...settings });
    const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];
    limit(gateway.child.pid!, 3);
    process.kill(await gateway.descendantPid('mediasoup-worke'), 'SIGKILL');
    await eventually('it is said', () => gateway.logged('media worker not replaced').length > 0);
    const tone = await opusTone(1000, 0.5, 500);
    await play(ada, tone);
    await eventually('every frame', () => bob.frames.length === tone.length);
    expect(gateway.child.exitCode).toBe(null);

    limit(gateway.child.pid!, 1024);
    const starts = () => gateway.logged('media worker started');
    await eventually('it is replaced', () => starts().length === 2);
    const [first, second] = starts().map(({ rtcAddresses }) => rtcAddresses);
    expect(second).toEqual(first);
    const metrics = await (await fetch(`${node.url}/metrics`)).text();
    const [, count] =
      /^partyline_shortages_total\{resource="descriptors"\} (\d+)/m.exec(metrics) ?? [];
    expect(Number(count)).toBeGreaterThan(0);
    await ada.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  },
);

test('an address counts as unusable because of what it is, and not for lack of a descriptor', async () => {
  const { href } = new URL('../../src/media/bindable.ts', import.meta.url);
  const script = `
    import { execFileSync } from 'node:child_process';
    import { isBindable } from '${href}';
    const say = (ip) => isBindable(ip).then((is) => console.log(is), ({ code }) => console.log(code));
    await say('127.0.0.1');
    await say('192.0.2.1');
    execFileSync('prlimit', ['--pid', String(process.pid), '--nofile=3:']);
    await say('127.0.0.1');`;
  const said = execFileSync(process.execPath, ['--input-type=module', '--eval', script]);
  expect(said.toString()).toBe('true\nfalse\nEMFILE\n');
});

test('a rejection that nobody handles is logged, and drains the node', async () => {
  const fault = `process.on('SIGUSR2',()=>{Promise.reject(new Error('nobody_handles_this'))})`;
  const environment = {
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(fault)}`,
    DRAIN_MS: '60000',
  };
  const { gateway, ...node } = await start(environment);
  const client = await enter(node, 'ada');
  gateway.child.kill('SIGUSR2');
  expect(await client.next('draining')).toMatchObject({ deadline_ms: 60_000 });
  const logged = () => gateway.logged('unhandled rejection; draining the node');
  await eventually('it is logged', () => logged().length > 0);
  const [line] = logged();
  expect(line?.['err']).toMatchObject({ message: 'nobody_handles_this' });
  await client.close();
  expect(await gateway.exited).toBe(1);
});
