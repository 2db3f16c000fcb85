import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { type Timings, timingsWith } from '../../config/timings.ts';
import type { RelayedMessage } from '../../src/cluster/relay/relay-frame.ts';
import { Relays } from '../../src/cluster/relay/relays.ts';
import { counters } from '../../src/counters.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { TestProxy } from '../support/proxy.ts';

const KEY = 'a key that all nodes have';
/** Times with which nothing is dropped, however busy the machine, unless a test asks for shorter ones. */
const PATIENT = { retryAfterMs: 50, maxAgeMs: 30_000 };

const cleanUps: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

type Node = { relays: Relays; port: number; heard: RelayedMessage[]; heardTexts: () => string[] };

async function openNode(
  node: string,
  relay: Partial<Timings['relay']> = {},
  clusterKey = KEY,
  portRange = { min: 20_000, max: 29_999 },
): Promise<Node> {
  const heard: RelayedMessage[] = [];
  const relays = await Relays.open({
    node,
    clusterKey,
    pipes: { addresses: [{ ip: '127.0.0.1' }], portRange },
    timings: timingsWith({ relay: { ...PATIENT, ...relay } }).relay,
    log: silentLog,
    onMessage: (message) => heard.push({ ...message, message: Buffer.from(message.message) }),
  });
  cleanUps.push(() => relays.close());
  const heardTexts = () => heard.map(({ message }) => message.toString());
  return { relays, port: relays.addresses[0]?.port ?? 0, heard, heardTexts };
}

async function openProxy(to: Node): Promise<TestProxy> {
  const proxy = await TestProxy.open(`http://127.0.0.1:${to.port}`);
  cleanUps.push(() => proxy.close());
  return proxy;
}

const say = (from: Node, to: string, port: number, message: string | Buffer) =>
  from.relays.send(1, { room: 'a', peer: 'alice', message: Buffer.from(message) }, [
    { node: to, address: { ip: '127.0.0.1', port } },
  ]);

test('messages go from node to node in order and as they are, 64 KiB ones among them', async () => {
  const [one, other] = [await openNode('one'), await openNode('other')];
  const said = Array.from({ length: 300 }, (_, i) =>
    Buffer.alloc(i % 20 === 0 ? 64 * 1024 : 1 + i, i),
  );
  for (const message of said) say(one, 'other', other.port, message);
  say(other, 'one', one.port, 'the other way');
  await eventually('all have come', () => other.heard.length === said.length);
  expect(other.heard.map(({ message }) => message)).toEqual(said);
  expect(other.heard[0]).toMatchObject({ room: 'a', peer: 'alice' });
  await eventually('it has come', () => one.heard.length === 1);
  expect([one.relays.size, other.relays.size]).toEqual([1, 1]);
});

test('a link that was cut is opened again, and goes on', async () => {
  const [one, other] = [await openNode('one'), await openNode('other')];
  const proxy = await openProxy(other);
  const port = Number(new URL(proxy.url).port);
  say(one, 'other', port, 'before');
  await eventually('it has come', () => other.heard.length === 1);
  const before = counters.relayFaults;
  proxy.cut();
  await eventually('it is known to be cut', () => one.relays.size === 0);
  say(one, 'other', port, 'meanwhile');
  await eventually('it was tried', () => counters.relayFaults > before);
  proxy.leadTo(`http://127.0.0.1:${other.port}`);
  await eventually('what waited has come', () => other.heard.length === 2);
  say(one, 'other', port, 'after');
  await eventually('it has come', () => other.heard.length === 3);
  expect(other.heardTexts()).toEqual(['before', 'meanwhile', 'after']);
});

test('a link whose other end does not answer any more is given up and opened again', async () => {
  const [one, other] = [await openNode('one', { probeEveryMs: 50 }), await openNode('other')];
  const proxy = await openProxy(other);
  const port = Number(new URL(proxy.url).port);
  say(one, 'other', port, 'before');
  await eventually('it has come', () => other.heard.length === 1);
  const before = counters.relayFaults;
  proxy.hang();
  await eventually('it is given up', () => counters.relayFaults > before);
  say(one, 'other', port, 'after');
  await eventually('it has come', () => other.heard.length === 2);
  expect(other.heardTexts()).toEqual(['before', 'after']);
});

test('a link that is open but not read: of what waits the oldest beyond 4 MiB are dropped and counted, and the rest comes in order', async () => {
  const [one, other] = [await openNode('one'), await openNode('other')];
  const proxy = await openProxy(other);
  const port = Number(new URL(proxy.url).port);
  say(one, 'other', port, 'before');
  await eventually('it has come', () => other.heard.length === 1);
  proxy.hang();
  const before = counters.dropped.not_relayed;
  const faults = counters.relayFaults;
  const dropped = () => counters.dropped.not_relayed - before;
  let sent = 0;
  // Kernels hold some megabytes besides.
  while (dropped() < 100 && sent < 2000) {
    const message = Buffer.alloc(64 * 1024);
    message.writeUInt32BE(sent);
    say(one, 'other', port, message);
    sent += 1;
    await new Promise(setImmediate);
  }
  expect(dropped()).toBe(100);
  proxy.goOn();
  const numbers = () => other.heard.slice(1).map(({ message }) => message.readUInt32BE());
  await eventually('the newest has come', () => numbers().at(-1) === sent - 1);
  const heard = numbers();
  expect(heard).toEqual([...new Set(heard)].toSorted((a, b) => a - b));
  expect(heard.length).toBe(sent - dropped());
  expect(heard.slice(-60)[0]).toBe(sent - 60);
  expect([one.relays.size, counters.relayFaults]).toEqual([1, faults]);
});

test('messages that wait too long for a node are dropped and counted, and it is not tried any more', async () => {
  const one = await openNode('one', { maxAgeMs: 300 });
  const other = await openNode('other');
  const proxy = await openProxy(other);
  const port = Number(new URL(proxy.url).port);
  proxy.cut();
  const before = counters.dropped.not_relayed;
  const faults = counters.relayFaults;
  say(one, 'other', port, 'too old');
  await eventually('it was tried', () => counters.relayFaults > faults);
  await eventually('it is dropped', () => counters.dropped.not_relayed > before);
  proxy.leadTo(`http://127.0.0.1:${other.port}`);
  await eventually('others come', () => {
    say(one, 'other', port, 'in time');
    return other.heard.length > 0;
  });
  expect(new Set(other.heardTexts())).toEqual(new Set(['in time']));
});

test('a node that closes in order is no fault', async () => {
  const [one, other] = [await openNode('one'), await openNode('other')];
  say(one, 'other', other.port, 'a');
  await eventually('it has come', () => other.heard.length === 1);
  const before = counters.relayFaults;
  other.relays.close();
  await eventually('it is closed', () => one.relays.size === 0);
  expect(counters.relayFaults).toBe(before);
});

test('a link without messages is closed, and opened again for the next', async () => {
  const one = await openNode('one', { idleMs: 100, probeEveryMs: 50 });
  const other = await openNode('other');
  const before = counters.relayFaults;
  say(one, 'other', other.port, 'a');
  await eventually('it has come', () => other.heard.length === 1);
  await eventually('it is closed', () => one.relays.size === 0);
  say(one, 'other', other.port, 'b');
  await eventually('it has come', () => other.heard.length === 2);
  expect(counters.relayFaults).toBe(before);
});

test('a port that is taken is passed over; where all are, the node sends, and takes nothing', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  cleanUps.push(() => void taken.close());
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const other = await openNode('other');
  const one = await openNode('one', {}, KEY, { min: port, max: port });
  expect(one.relays.addresses).toEqual([]);
  say(one, 'other', other.port, 'all the same');
  await eventually('it has come', () => other.heard.length === 1);
  const ports = { min: port - 40, max: port };
  const names = Array.from({ length: 8 }, (_, i) => `node ${i}`);
  const crowd = await Promise.all(names.map((name) => openNode(name, {}, KEY, ports)));
  expect(new Set([0, port, ...crowd.map((node) => node.port)]).size).toBe(10);
});

describe('strangers', () => {
  const knock = async (port: number): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1');
    cleanUps.push(() => void socket.destroy());
    // It may be reset: that is an answer, too.
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  };
  const ended = async (socket: Socket) => {
    socket.resume();
    if (!socket.closed) await once(socket, 'close');
  };

  test('a node with another key is refused, and nothing of it is heard', async () => {
    const one = await openNode('one', {}, 'another key');
    const other = await openNode('other');
    const before = counters.relayRefusals;
    say(one, 'other', other.port, 'let me in');
    await eventually('it is refused', () => counters.relayRefusals > before);
    expect([one.relays.size, other.heard]).toEqual([0, []]);
  });

  test('a server with a certificate is no node, whatever NODE_TLS_REJECT_UNAUTHORIZED says', async () => {
    const read = (name: string) => readFileSync(join('test/fixtures', name));
    const heard: Buffer[] = [];
    const impostor = createTlsServer(
      {
        cert: read('tls-cert.pem'),
        key: read('tls-key.pem'),
        ALPNProtocols: ['partyline-relay/1'],
      },
      (socket) => socket.on('data', (chunk: Buffer) => heard.push(chunk)).on('error', () => {}),
    );
    cleanUps.push(() => void impostor.close());
    impostor.listen(0, '127.0.0.1');
    await once(impostor, 'listening');
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    cleanUps.push(() => void vi.unstubAllEnvs());
    const one = await openNode('one');
    const before = counters.relayFaults;
    say(one, 'other', (impostor.address() as AddressInfo).port, 'a secret');
    await eventually('it is given up', () => counters.relayFaults > before + 1);
    expect([heard, one.relays.size]).toEqual([[], 0]);
  });

  test('a connection that is led to another node than it was meant for is refused', async () => {
    const [one, other] = [await openNode('one'), await openNode('other')];
    const before = counters.relayRefusals;
    say(one, 'a third node', other.port, 'not for other');
    await eventually('it is refused', () => counters.relayRefusals > before);
    expect(other.heard).toEqual([]);
  });

  test('garbage, silence and clients without a key are closed, and nodes get in all the same', async () => {
    const [one, other] = [await openNode('one'), await openNode('other', { connectWithinMs: 300 })];
    const garbage = await knock(other.port);
    garbage.write(Buffer.alloc(1000, 'GET / HTTP/1.1\r\n'));
    const slow = await knock(other.port);
    // The beginning of a record of TLS, and no more.
    slow.write(Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00]));
    const silent = await knock(other.port);
    const browser = connectTls({ port: other.port, host: '127.0.0.1', rejectUnauthorized: false });
    const [fault] = (await once(browser, 'error')) as [Error];
    expect(fault.message).toContain('alert');
    say(one, 'other', other.port, 'a node');
    await eventually('it has come', () => other.heard.length === 1);
    await Promise.all([garbage, slow, silent].map(ended));
  });

  test('connections that never show a key are limited in number, and their slots are released', async () => {
    const [one, other] = [await openNode('one'), await openNode('other', { connectWithinMs: 300 })];
    const before = counters.relayRefusals;
    const crowd = await Promise.all(Array.from({ length: 80 }, () => knock(other.port)));
    await eventually('some are closed at once', () => counters.relayRefusals - before >= 80 - 64);
    await Promise.all(crowd.map(ended));
    say(one, 'other', other.port, 'a node');
    await eventually('it has come', () => other.heard.length === 1);
  });
});
