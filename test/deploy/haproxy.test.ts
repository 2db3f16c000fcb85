import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { connect as connectTcp } from 'node:net';
import { request } from 'node:https';
import { connect as connectTls } from 'node:tls';
import { beforeEach, expect, test } from 'vitest';
import { makeCertificates, type TestCertificates } from '../support/certificates.ts';
import { TestClient } from '../support/client.ts';
import { freePorts } from '../support/free-ports.ts';
import { eventually } from '../support/gateway.ts';
import { TestHaproxy } from '../support/haproxy.ts';
import { GatewayProcess } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';
import { keepPlaying, opusTone } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { cleanUps } = useStack();

const OPERATOR_KEY = 'key-of-the-operator';

const asOperator = { authorization: `Bearer ${OPERATOR_KEY}` };

let certificates: TestCertificates;
let redis: TestRedis;
let gateways: GatewayProcess[];
let ports: { clients: number; operators: number; gateways: [number, number] };
let proxy: TestHaproxy;
let apiKey: string;

const startGateway = async (index: number) => {
  const gateway = await GatewayProcess.start({
    PORT: String(ports.gateways[index]),
    REDIS_URL: redis.url,
    TRUST_PROXY: '127.0.0.1',
    OPERATOR_KEY,
    USAGE_WORKERS: '0',
    DRAIN_MS: '60000',
  });
  cleanUps.push(() => gateway.dispose());
  gateways[index] = gateway;
  return gateway.ready();
};

beforeEach(async () => {
  certificates = await makeCertificates('IP:127.0.0.1', 'DNS:localhost');
  cleanUps.push(() => certificates.close());
  redis = await TestRedis.start();
  cleanUps.push(() => redis.kill());
  const [clients = 0, operators = 0, first = 0, second = 0] = await freePorts(4);
  ports = { clients, operators, gateways: [first, second] };
  gateways = [];
  ({ api_key: apiKey } = await startGateway(0));
  await startGateway(1);
  proxy = await TestHaproxy.start(certificates, ports);
  cleanUps.push(() => proxy.close());
});

const tls = () => ({ ca: readFileSync(certificates.caFile) });

async function connect(
  peer: string,
  query: Record<string, string> = {},
  headers: Record<string, string> = {},
): Promise<TestClient> {
  const client = await TestClient.connect(
    `https://127.0.0.1:${ports.clients}`,
    { room: '__lobby__', peer, api_key: apiKey, audio: 'opus', ...query },
    { ...tls(), headers },
  );
  cleanUps.push(() => client.vanish());
  return client;
}

/** The status of a request whose path is sent as it is, and what was answered. */
async function get(path: string, port = ports.clients, headers: Record<string, string> = {}) {
  const sent = request({ host: '127.0.0.1', port, path, headers, ...tls() }).end();
  const [response] = (await once(sent, 'response')) as [import('node:http').IncomingMessage];
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode, text, cookie: response.headers['set-cookie']?.[0] };
}

const sessions = () => Promise.all([0, 1].map((index) => figureOf(index, 'sessions')));

/** A figure of a gateway, asked directly; at most a second old. */
const figureOf = async (index: number, name: string) => {
  const response = await fetch(`http://127.0.0.1:${ports.gateways[index]}/metrics`);
  return Number(new RegExp(`^partyline_${name} (\\d+)`, 'm').exec(await response.text())?.[1]);
};

test('TLS ends there, both gateways get clients, and rooms stay together', async () => {
  const clients = await Promise.all(Array.from({ length: 20 }, (_, i) => connect(`peer ${i}`)));
  await Promise.all(clients.map((client) => client.next('welcome')));
  await expect.poll(sessions, { timeout: 5000 }).toEqual([10, 10]);

  const [rooms, members] = [20, 5];
  for (let room = 0; room < rooms; room += 1) {
    const name = `a room/with % and ü ${room}`;
    await Promise.all(
      Array.from({ length: members }, async (_, member) => {
        const client = await connect(`${member} of ${room}`, { room: name });
        expect(await client.next('joined')).toMatchObject({ room: name });
      }),
    );
  }
  const sum = async (name: string) => (await figureOf(0, name)) + (await figureOf(1, name));
  await expect.poll(() => sum('sessions'), { timeout: 5000 }).toBe(20 + rooms * members);
  // A room that is on both gateways counts twice. By chance 19 of 20 would be; some are, where the
  // bound moves clients on.
  expect(await sum('rooms')).toBeLessThanOrEqual(34);

  const plain = connectTcp(ports.clients, '127.0.0.1');
  plain.on('error', () => {});
  plain.write('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n');
  let answered = '';
  plain.on('data', (chunk) => (answered += chunk.toString('latin1')));
  await once(plain, 'close');
  expect(answered).not.toContain('HTTP/1.1 200');
  const old = connectTls({
    host: '127.0.0.1',
    port: ports.clients,
    ...tls(),
    minVersion: 'TLSv1.1',
    maxVersion: 'TLSv1.1',
    ciphers: 'DEFAULT@SECLEVEL=0',
  });
  const [fault] = (await once(old, 'error')) as [Error];
  expect(fault.message).toMatch(/protocol version|alert/i);
});

test('a gateway drains while clients come without a pause: none is refused, and those on it stay', async () => {
  const staying = await Promise.all(Array.from({ length: 6 }, (_, i) => connect(`stays ${i}`)));
  for (const client of staying) await client.ask({ type: 'join', room: 'a' }, 'joined');
  const playing = keepPlaying(staying[0]!, await opusTone(500, 0.3, 2000));
  cleanUps.push(() => playing.close());
  const refused: string[] = [];
  let arrived = 0;
  const enough = new AbortController();
  const come = async (line: number) => {
    for (let i = 0; !enough.signal.aborted; i += 1) {
      // In turn to a room, which has a place of its own, and to the lobby.
      const query: Record<string, string> = i % 2 === 0 ? { room: `room ${line} ${i}` } : {};
      const client = await connect(`comes ${line} ${i}`, query);
      const first = await client.until('answer', () => client.messages[0]);
      if (first.type === 'error') refused.push(JSON.stringify(first));
      else arrived += 1;
      await client.close();
    }
  };
  const lines = Promise.all([0, 1, 2].map(come));
  await eventually('many have come', () => arrived > 30);
  gateways[0]!.child.kill('SIGTERM');
  await eventually('HAProxy has seen it', async () => {
    return (await proxy.states())['gateway-1']?.startsWith('DOWN') === true;
  });
  const sinceDown = arrived;
  await eventually('many more have come', () => arrived > sinceDown + 100, 30_000);
  enough.abort();
  await lines;
  expect(refused).toEqual([]);
  const told = staying.filter(({ messages }) => messages.some(({ type }) => type === 'draining'));
  expect(told.length).toBeGreaterThan(0);
  const heard = staying[1]!.frames.length;
  await eventually('the call goes on', () => staying[1]!.frames.length > heard + 50);
  await playing.close();
  for (const client of staying) await client.close();
  expect(await gateways[0]!.exited).toBe(0);
  await startGateway(0);
  await eventually('it gets clients again', async () => {
    return (await proxy.states())['gateway-1'] === 'UP';
  });
  gateways[1]!.child.kill('SIGKILL');
  expect(await (await connect('after')).next('welcome')).toBeDefined();
});

test('a page and its parts come from one gateway, as long as it is ready; WebSockets of the page go to any', async () => {
  const first = await get('/');
  const second = await get('/');
  expect([first.status, second.status]).toEqual([200, 200]);
  const cookies = [first, second].map(({ cookie }) => cookie?.split(';')[0]);
  expect(new Set(cookies)).toEqual(new Set(['partyline-page=1', 'partyline-page=2']));
  expect(first.cookie).toMatch(/HttpOnly.*Secure/i);

  const cookie = 'partyline-page=1';
  const before = await proxy.requestsOf('pages');
  const [part] = /assets\/[^"]+\.js/.exec(first.text) ?? [];
  for (const path of ['/', `/${part}`, '/?raw', '/assets/missing.js', '/admin/', `/${part}`]) {
    const isOfOperator = path === '/admin/';
    const port = isOfOperator ? ports.operators : ports.clients;
    const answer = await get(path, port, { cookie });
    expect({ path, status: answer.status }).toEqual({
      path,
      status: path.includes('missing') ? 404 : 200,
    });
    expect(answer.cookie).toBeUndefined();
  }
  const after = await proxy.requestsOf('pages');
  expect(after['gateway-2']).toBe(before['gateway-2']);
  expect(after['gateway-1']! - before['gateway-1']!).toBe(6);

  for (let i = 0; i < 6; i += 1) {
    const client = await connect(`of the page ${i}`, {}, { cookie });
    await client.next('welcome');
  }
  await expect.poll(sessions, { timeout: 5000 }).toEqual([3, 3]);

  gateways[0]!.child.kill('SIGTERM');
  await eventually('HAProxy has seen it', async () => {
    return (await proxy.states())['gateway-1']?.startsWith('DOWN') === true;
  });
  const moved = await get('/', ports.clients, { cookie });
  expect(moved.status).toBe(200);
  expect(moved.cookie).toMatch(/^partyline-page=2;/);
});

test('metrics and the operator are hidden, however they are spelt, and what is forwarded stays as it came', async () => {
  for (const path of [
    '/metrics',
    '/%6detrics',
    '/metrics?x=1',
    '/METRICS',
    '//metrics',
    '/metrics/',
    '/%2fmetrics',
    '/metric%73',
    '/%256detrics',
    '/./metrics',
    '/x/../metrics',
    '/metrics;x',
    '/admin',
    '/admin/',
    '/%61dmin/index.html',
    '/api/admin/accounts',
    '/api/%61dmin/accounts',
    '/api/admin%2faccounts',
    '/api//admin/accounts',
    '/api/./admin/accounts',
  ]) {
    const { status, text } = await get(path, ports.clients, {
      authorization: `Bearer ${OPERATOR_KEY}`,
    });
    expect({ path, status }).toEqual({ path, status: 404 });
    expect(text).not.toMatch(/partyline_|"accounts"/);
  }
  expect((await get('/api/admin/accounts', ports.operators, asOperator)).status).toBe(200);
  expect((await get('/admin/', ports.operators)).status).toBe(200);
  expect((await get('/metrics', ports.operators)).status).toBe(200);
  // A room whose name has a slash: decoded on the way, it would be another route.
  const encoded = `/api/admin/rooms/1/${encodeURIComponent('a/b')}`;
  const room = await connect('alice', { room: 'a/b' });
  await room.next('joined');
  const answer = await get(encoded, ports.operators, asOperator);
  expect(answer.status).toBe(200);
  expect(answer.text).toContain('alice');
  // The same where paths are decoded to be compared.
  expect((await get(`/whip/${encodeURIComponent('a/b')}`)).status).toBe(200);
  expect((await get('/whip/a/b')).status).toBe(404);
  expect((await get('/api/me', ports.clients, { authorization: `Bearer ${apiKey}` })).status).toBe(
    200,
  );
});

test('requests that come a byte at a time end after 10 s', async () => {
  const drip = async (head: string, rest: string) => {
    const socket = connectTls({ host: '127.0.0.1', port: ports.clients, ...tls() });
    socket.on('error', () => {});
    await once(socket, 'secureConnect');
    const startMs = performance.now();
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString()));
    socket.write(head);
    let at = 0;
    const timer = setInterval(() => socket.write(rest[at++ % rest.length]!), 500);
    await once(socket, 'close');
    clearInterval(timer);
    return { answer: answer.split('\r\n')[0], tookMs: performance.now() - startMs };
  };
  const body = 'POST /api/tokens HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n';
  const ended = await Promise.all([drip('GET /healthz HTTP/1.1\r\n', 'x: y\r\n'), drip(body, '{')]);
  for (const { answer, tookMs } of ended) {
    expect(answer).toBe('HTTP/1.1 408 Request Time-out');
    expect(tookMs).toBeGreaterThan(9000);
    expect(tookMs).toBeLessThan(20_000);
  }
});

test('a renewed certificate is served after SIGHUP, and clients stay connected', async () => {
  const client = await connect('alice', { room: 'a' });
  await client.next('joined');
  const renewed = await makeCertificates('IP:127.0.0.1', 'DNS:localhost');
  cleanUps.push(() => renewed.close());
  await copyFile(renewed.chainAndKeyFile, certificates.chainAndKeyFile);
  proxy.reload();
  await eventually('the new certificate', async () => {
    const socket = connectTls({ port: ports.clients, ca: readFileSync(renewed.caFile) });
    socket.on('error', () => {});
    try {
      await once(socket, 'secureConnect');
      return true;
    } catch {
      return false;
    } finally {
      socket.destroy();
    }
  });
  expect(await client.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a' });
});

test('while Redis is away gateways say so themselves', async () => {
  redis.hang();
  cleanUps.push(() => redis.goOn());
  await eventually('both are down', async () => {
    return (
      Object.values(await proxy.states()).filter((state) => state.startsWith('DOWN')).length >= 2
    );
  });
  for (const path of ['/admin/', '/api/admin/nodes/self']) {
    expect((await get(path, ports.operators, asOperator)).status).toBe(200);
  }
  const client = await connect('alice', { room: 'a' });
  expect(await client.next('error')).toMatchObject({ code: 'overloaded', retryable: true });
  expect(await client.closed).toBe(1013);
});
