import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { VERSION } from '../../src/version.ts';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { recordedOffer } from '../support/offers.ts';
import { GatewayProcess, timingsOf, untilEnded } from '../support/process.ts';
import { slownessOfMachine } from '../support/slowness.ts';
import { opusTone, play } from '../support/sound.ts';

/** Two gateways on one port, as `PROCESSES=2` starts them. */

const PROCESSES = 2;
const CONNECTIONS = 40;
const PEERS_OF_ROOM = 4;
/** Time in which a process that has ended is replaced by one that answers. */
const RESTART_TIMEOUT_MS = 60_000;

const started: GatewayProcess[] = [];
afterEach(async () => {
  for (const node of started.splice(0)) await node.dispose();
});

const CHECK_EVERY_MS = 300;

/**
 * Slowness of the machine when these tests begin (decision 191), 2 at least, because other tests run beside these: processes and requests have
 * as much longer to answer.
 */
let slowness: number;
const slowly = (ms: number) => Math.round(ms * slowness);
beforeAll(async () => {
  slowness = Math.max(2, await slownessOfMachine());
});

function launch(
  environment?: Record<string, string>,
  checkEveryMs = CHECK_EVERY_MS,
): Promise<GatewayProcess> {
  const processes = {
    aliveEveryMs: 200,
    checkEveryMs: slowly(checkEveryMs),
    firstRestartMs: 300,
    answerWithinMs: slowly(700),
  };
  return GatewayProcess.start({
    PROCESSES: String(PROCESSES),
    USAGE_WORKERS: '0',
    ...timingsOf({ processes, load: { scrapeEveryMs: 1 } }),
    ...environment,
  });
}

async function start(...options: Parameters<typeof launch>): Promise<GatewayProcess> {
  const node = await launch(...options);
  started.push(node);
  return node;
}

async function enter(url: string, apiKey: string, peer: string, room = 'a'): Promise<TestClient> {
  const client = await TestClient.connect(url, { room, peer, api_key: apiKey, audio: 'opus' });
  await client.next('joined');
  return client;
}

/** Into rooms of four. */
const enterMany = (url: string, apiKey: string, name = 'peer') =>
  Promise.all(
    Array.from({ length: CONNECTIONS }, (_, index) =>
      enter(url, apiKey, `${name} ${index}`, `room ${Math.floor(index / PEERS_OF_ROOM)}`),
    ),
  );

/** The gateway processes that have been started, in that order. */
const gatewayPids = (node: GatewayProcess) =>
  node.logged('media worker started').map(({ pid }) => pid as number);

/** Returns the process in which each of `peers` peers has joined, in that order. */
async function pidsOfPeers(node: GatewayProcess, peers: number): Promise<number[]> {
  await eventually('a line for each', () => node.logged('room joined').length === peers);
  return node.logged('room joined').map(({ pid }) => pid as number);
}

/** To which process the kernel has dealt each connection, by the order in which they were made. */
const pidsOfConnections = (node: GatewayProcess) =>
  node
    .logged('incoming request')
    .filter(({ req }) => (req as { path: string }).path === '/ws')
    .map(({ pid }) => pid as number);

/** Two gateways with clients, of which one is to fall: with how many of them, and which have been cut off by now. */
async function startWithVictim(...options: Parameters<typeof launch>) {
  const node = await start(...options);
  const { url, api_key: apiKey } = await node.ready();
  const clients = await enterMany(url, apiKey);
  const cut = new Set<TestClient>();
  for (const client of clients) void client.closed.then(() => cut.add(client));
  const [victim = 0] = gatewayPids(node);
  const victims = (await pidsOfPeers(node, CONNECTIONS)).filter((pid) => pid === victim).length;
  expect(victims).toBeGreaterThan(0);
  return { node, clients, cut, victim, victims };
}

test('a gateway that is killed is back; calls on the other go on', async () => {
  const { node, clients, cut, victim, victims } = await startWithVictim();
  process.kill(victim, 'SIGKILL');
  await eventually('its connections are cut', () => cut.size === victims);
  const [speaker, ...others] = clients.filter((client) => !cut.has(client));
  const tone = await opusTone(1000, 0.5, 500);
  if (speaker) await play(speaker, tone);
  const whenAllHeard = ({ frames }: TestClient) => frames.length === tone.length;
  await eventually('every frame', () => others.filter(whenAllHeard).length === PEERS_OF_ROOM - 1);
  const isBack = () => node.logged('media worker started').length === PROCESSES + 1;
  await eventually('it is back', isBack, RESTART_TIMEOUT_MS);
  const [first, , again] = node.logged('media worker started');
  expect(again).toMatchObject({ name: first?.['name'], rtcPort: first?.['rtcPort'] });
});

/** Asks on a connection of its own, which may come to any of the processes. @param withinMs limit on the reference machine */
async function ask(url: string, withinMs = 2000): Promise<{ status?: number; body: string }> {
  const request = get(url, { agent: false, signal: AbortSignal.timeout(slowly(withinMs)) });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return { status: response.statusCode!, body: await text(response) };
}

const scrape = async (url: string) => (await ask(`${url}/metrics`)).body;

/** The answers of the processes that do answer. */
async function askMany(url: string): Promise<{ status?: number; body: string }[]> {
  const asked = Array.from({ length: 8 }, () => ask(url, 400));
  const answers = await Promise.allSettled(asked);
  return answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
}

test('the kernel deals out connections, no two media workers have a port in common, and /metrics has the figures of all', async () => {
  const node = await start();
  const { url, api_key: apiKey } = await node.ready();
  await enterMany(url, apiKey);
  expect(node.output.match(/^ready /gm)).toHaveLength(1);
  expect(new Set(pidsOfConnections(node))).toEqual(new Set(gatewayPids(node)));
  const workers = node.logged('media worker started');
  expect(new Set(workers.map(({ name }) => name))).toEqual(new Set(['gateway 0', 'gateway 1']));
  expect(new Set(workers.map(({ rtcPort }) => rtcPort)).size).toBe(PROCESSES);
  const sessionsByProcess = async () => {
    const figures = await scrape(url);
    expect(figures.match(/^# TYPE partyline_sessions gauge$/gm)).toHaveLength(1);
    const found = figures.matchAll(/^partyline_sessions\{process="(.+)"\} (\d+)$/gm);
    return Object.fromEntries([...found].map(([, name, value]) => [name, Number(value)]));
  };
  const pids = await pidsOfPeers(node, CONNECTIONS);
  const expected = gatewayPids(node)
    .map((pid) => pids.filter((of) => of === pid).length)
    .toSorted((a, b) => a - b);
  for (let scrapes = 0; scrapes < 6; scrapes += 1) {
    const byProcess = await sessionsByProcess();
    expect(Object.keys(byProcess).toSorted()).toEqual(['gateway 0', 'gateway 1']);
    const counts = Object.values(byProcess) as number[];
    expect(counts.toSorted((a, b) => a - b)).toEqual(expected);
  }
});

test('a gateway that hangs is missing in /metrics, named by /healthz, killed, and another is started in its place', async () => {
  // It is silent after three checks, and killed after ten: time enough to see it hang.
  const { node, cut, victim, victims } = await startWithVictim({}, 600);
  const { url, api_key: apiKey } = await node.ready();
  const [{ name } = {}] = node.logged('media worker started');
  process.kill(victim, 'SIGSTOP');
  // Some of these come to the one that hangs.
  const scrapes = Array.from({ length: 16 }, () => scrape(url));
  const answers = (await Promise.allSettled(scrapes)).filter((got) => got.status === 'fulfilled');
  expect(answers.length).toBeGreaterThan(0);
  for (const { value } of answers) {
    expect(value).toContain('partyline_sessions{process=');
    expect(value).not.toContain(`process="${name as string}"`);
  }
  await expect
    .poll(() => askMany(`${url}/healthz`), { timeout: RESTART_TIMEOUT_MS })
    .toContainEqual({
      status: 503,
      body: JSON.stringify({ status: 'hung', version: VERSION, hung: [name] }),
    });
  const isBack = () => node.logged('media worker started').length === PROCESSES + 1;
  await eventually('another is there', isBack, RESTART_TIMEOUT_MS);
  expect(node.logged('process hangs; killed')).toHaveLength(1);
  await eventually('its connections are cut', () => cut.size === victims);
  await untilEnded([victim]);
  await enterMany(url, apiKey);
  const healthy = { status: 200, body: JSON.stringify({ status: 'ok', version: VERSION }) };
  await expect
    .poll(() => askMany(`${url}/healthz`), { timeout: RESTART_TIMEOUT_MS })
    .toEqual(Array.from({ length: 8 }, () => healthy));
  const figures = ['gateway 0', 'gateway 1'].flatMap((process) => [
    `partyline_hung_processes{process="${process}"} 0\n`,
    `partyline_gateway_deaths_total{process="${process}"} 1\n`,
  ]);
  await eventually('each process knows', async () => {
    const page = await scrape(url);
    return figures.every((figure) => page.includes(figure));
  });
});

test('any process answers for any session of WHEP', async () => {
  const node = await start();
  const { url, api_key: apiKey } = await node.ready();
  /** On a connection of its own, which may come to any of the processes. */
  const request = (path: string, method: string, body?: string) =>
    fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        connection: 'close',
        ...(body !== undefined && { 'content-type': 'application/sdp' }),
      },
      ...(body !== undefined && { body }),
    });
  const offer = recordedOffer('chromium-whep');
  const made = await Promise.all(
    Array.from({ length: 8 }, (_, i) => request(`/whep/a?peer=player${i}`, 'POST', offer)),
  );
  expect(made.map(({ status }) => status)).toEqual(made.map(() => 201));
  const sessions = made.map(({ headers }) => headers.get('location') ?? '');
  const askAll = async (method: string) => {
    const answers = await Promise.all(
      sessions.flatMap((session) => Array.from({ length: 4 }, () => request(session, method))),
    );
    return new Set(answers.map(({ status }) => status));
  };
  expect(await askAll('GET')).toEqual(new Set([200]));
  const ended = await Promise.all(sessions.map((session) => request(session, 'DELETE')));
  expect(new Set(ended.map(({ status }) => status))).toEqual(new Set([200]));
  expect(await askAll('GET')).toEqual(new Set([404]));
  // The requests came to both.
  const isOfWhep = ({ req }: Record<string, unknown>) =>
    (req as { path: string }).path.startsWith('/whep/');
  const pids = node
    .logged('incoming request')
    .filter(isOfWhep)
    .map(({ pid }) => pid);
  expect(new Set(pids).size).toBe(PROCESSES);
});

test('messages of an unknown format reach clients of other processes whole and in order', async () => {
  const node = await start();
  const { url, api_key: apiKey } = await node.ready();
  const peers = Array.from({ length: 12 }, (_, index) => `peer ${index}`);
  const clients = await Promise.all(
    peers.map(async (peer) => {
      const query = { room: '__lobby__', peer, api_key: apiKey, audio: 'opaque' };
      const client = await TestClient.connect(url, query);
      // A client that has sent a message in the lobby stays in its process (decision 46).
      await client.ask({ type: 'configure', delivery: 'mix' }, 'configured');
      await client.ask({ type: 'join', room: 'sealed' }, 'joined');
      return client;
    }),
  );
  expect(new Set(await pidsOfPeers(node, peers.length)).size).toBe(PROCESSES);
  const [speaker, ...others] = clients as [TestClient, ...TestClient[]];
  const peersSeen = () =>
    speaker.messages.flatMap((message) =>
      message.type === 'joined' ? message.peers : message.type === 'peer_joined' ? [message] : [],
    );
  await eventually('all are seen', () => peersSeen().length === others.length);
  const sealed = Array.from({ length: 60 }, (_, i) =>
    randomBytes(i % 15 === 14 ? 65_536 : 1 + i * 7),
  );
  for (const message of sealed) speaker.sendAudio(message);
  await eventually('all is heard', () =>
    others.every(({ frames }) => frames.length >= sealed.length),
  );
  const whole = Buffer.concat(sealed);
  for (const { frames } of others) expect(Buffer.concat(frames).equals(whole)).toBe(true);
});

test('SIGTERM to one gateway: it makes way for the others, leaves when its clients have, and is started again', async () => {
  const node = await start({ DRAIN_MS: '30000' });
  const { url, api_key: apiKey } = await node.ready();
  const clients = await enterMany(url, apiKey);
  const [asked = 0] = gatewayPids(node);
  const before = await pidsOfPeers(node, CONNECTIONS);
  process.kill(asked, 'SIGTERM');
  const onAsked = () => clients.filter(({ messages }) => messages.some(isDraining));
  await eventually('its clients are told', () => {
    return onAsked().length === before.filter((pid) => pid === asked).length;
  });
  await enterMany(url, apiKey, 'later');
  expect(pidsOfConnections(node).slice(CONNECTIONS)).not.toContain(asked);
  expect((await pidsOfPeers(node, 2 * CONNECTIONS)).slice(CONNECTIONS)).not.toContain(asked);
  for (const client of onAsked()) await client.close();
  const isBack = () => node.logged('media worker started').length === PROCESSES + 1;
  await eventually('it is back', isBack, RESTART_TIMEOUT_MS);
});

const isDraining = ({ type }: { type: string }) => type === 'draining';

const OPERATOR_KEY = 'operator-key-of-the-tests';

const waysToLeave = {
  SIGTERM: (node: GatewayProcess) => node.child.kill('SIGTERM'),
  'POST /api/admin/drain': async (_node: GatewayProcess, url: string) => {
    const headers = { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' };
    return (await fetch(`${url}/api/admin/drain`, { method: 'POST', headers, body: '{}' })).ok;
  },
};

test.each(Object.entries(waysToLeave))(
  '%s: all gateways let their clients leave, and nothing is left',
  async (_name, askToLeave) => {
    const node = await start({ DRAIN_MS: '20000', OPERATOR_KEY, USAGE_WORKERS: '1' });
    const { url, api_key: apiKey } = await node.ready();
    const clients = await enterMany(url, apiKey);
    const descendants = await node.descendantPids();
    expect(await askToLeave(node, url)).toBe(true);
    for (const client of clients) await client.next('draining');
    for (const client of clients) await client.close();
    expect(await node.exitCode()).toBe(0);
    await untilEnded(descendants);
  },
);

test('SIGKILL: gateways, media workers, the usage worker and Redis end too', async () => {
  const node = await start({ USAGE_WORKERS: '1' });
  const { url, api_key: apiKey } = await node.ready();
  await enterMany(url, apiKey);
  const descendants = await node.descendantPids();
  // Redis, a usage worker, two gateways, each with a media worker.
  expect(descendants).toHaveLength(6);
  node.child.kill('SIGKILL');
  await untilEnded(descendants);
});

describe('a node that runs', () => {
  let node: GatewayProcess;
  beforeAll(async () => {
    node = await launch({ DRAIN_MS: '600000' });
  });
  afterAll(() => node.dispose());

  test('keeps its port: another such node is told in a sentence, and nothing of that is left', async () => {
    const { port } = new URL((await node.ready()).url);
    const second = await start({ PORT: port });
    expect(await second.exitCode()).toBe(1);
    expect(second.output).toMatch(
      /Partyline could not start\. HOST \S+ and PORT \d+ cannot be used: .*EADDRINUSE/,
    );
    expect(await second.descendantPids()).toEqual([]);
  });

  test('ends by a second SIGTERM, or SIGINT, without waiting for clients', async () => {
    const { url, api_key: apiKey } = await node.ready();
    const client = await enter(url, apiKey, 'alice');
    node.child.kill('SIGTERM');
    await client.next('draining');
    node.child.kill('SIGINT');
    expect(await client.closed).toBe(1012);
    expect(await node.exitCode()).toBe(0);
  });
});

test('a gateway that cannot start ends the others, and says why', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const node = await start({ RTC_PORT: String(port - 1) });
  expect(await node.exitCode()).toBe(1);
  // The one before it may be taken too, by whoever was dealt it.
  const ports = `(${port - 1}|${port})`;
  expect(node.output).toMatch(
    new RegExp(`could not start\\. WebRTC port ${ports} on 127.0.0.1[^(]* cannot be opened`),
  );
  taken.close();
});
