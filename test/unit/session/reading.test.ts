import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { performance } from 'node:perf_hooks';
import { type Duplex, Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { LoopTime } from '../../../src/loop-time.ts';
import { closeUnread } from '../../../src/session/close-unread.ts';
import { ReadGate, type ReadControl } from '../../../src/session/read-gate.ts';
import { readInTurns, FairScheduler } from '../../../src/session/turns.ts';

const turn = () => new Promise(setImmediate);

/** A stream whose chunks come when the test says so. */
class Arriving extends Readable {
  arrive(text: string): void {
    this.push(Buffer.from(text));
  }

  override _read(): void {}
}

/**
 * A connection of an account that is read in turn with others; `handled` has the first letter of each chunk that ws was handed.
 * @param work done for each chunk
 */
function openRead(
  turns: FairScheduler,
  accountId: number,
  work: (chunk: Buffer) => void = () => {},
) {
  const stream = new Arriving();
  const socket = { OPEN: 1, readyState: 1 };
  const handled: string[] = [];
  stream.on('data', (chunk: Buffer) => {
    handled.push(chunk.toString('latin1', 0, 1));
    work(chunk);
  });
  const owner = { turns, accountId };
  const gate = new ReadGate(stream as unknown as ReadControl).open();
  readInTurns(socket as WebSocket, stream as unknown as Duplex, owner, gate);
  return { stream, socket, handled };
}

function busyFor(ms: number): void {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
}

/** Longer than a slice of {@link FairScheduler}. */
const LONG_MS = 6;

test('closeUnread() tells the client why, and hands out nothing of what it has sent', async () => {
  const options = { perMessageDeflate: false, closeTimeout: 200 };
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, ...options });
  const connected = once(server, 'connection') as Promise<[WebSocket, IncomingMessage]>;
  await once(server, 'listening');
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const clientClosed = once(client, 'close') as Promise<[number, Buffer]>;
  const [socket, { socket: stream }] = await connected;
  let messages = 0;
  socket.on('message', () => (messages += 1));
  socket.pause();
  const closed = once(socket, 'close');
  if (client.readyState !== client.OPEN) await once(client, 'open');
  for (let sent = 0; sent < 2000; sent += 1) client.send('x'.repeat(1000));
  await expect.poll(() => stream.readableLength).toBeGreaterThan(0);
  closeUnread(socket, stream, 4429, 'rate_limited');
  const [code, reason] = await clientClosed;
  expect([code, String(reason)]).toEqual([4429, 'rate_limited']);
  await closed;
  expect(messages).toBe(0);
  server.close();
});

test('of a connection that breaks while it is not read, ws is handed out nothing of what waits', async () => {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
  const connected = once(server, 'connection') as Promise<[WebSocket, IncomingMessage]>;
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.write(
    'GET / HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${'A'.repeat(22)}==\r\n\r\n`,
  );
  const [socket, { socket: stream }] = await connected;
  let messages = 0;
  socket.on('message', () => (messages += 1));
  const gate = new ReadGate(socket).open();
  readInTurns(socket, stream, { turns: new FairScheduler(), accountId: 1 }, gate);
  gate.pause();
  // A masked text of one byte, thousands of times.
  client.write(Buffer.from('818100000000aa'.repeat(5000), 'hex'));
  await expect.poll(() => stream.readableLength).toBeGreaterThan(0);
  const closed = once(socket, 'close');
  client.resetAndDestroy();
  // The kernel tells of the reset at the next write.
  socket.ping();
  await closed;
  expect([messages, stream.readableLength]).toEqual([0, 0]);
  server.close();
});

test('begin() lets a piece start at once that comes a while after the last one', async () => {
  let nowMs = 0;
  const turns = new FairScheduler(new LoopTime(), () => nowMs);
  expect(turns.begin()).toBe(true);
  await turn();
  nowMs += LONG_MS;
  expect(turns.begin()).toBe(true);
  nowMs += LONG_MS;
  expect(turns.begin()).toBe(false);
});

test('readInTurns() handles a chunk at once, and the one behind a large one in the next turn of the event loop', async () => {
  const { stream, handled } = openRead(new FairScheduler(new LoopTime(), () => 0), 1);
  await turn();
  stream.arrive('a');
  stream.arrive('b'.repeat(65_536));
  stream.arrive('c');
  expect(handled).toEqual(['a', 'b']);
  await turn();
  await turn();
  expect(handled).toEqual(['a', 'b', 'c']);
});

test('readInTurns() handles what came of many, when a slice of time is over, later: the accounts in turn, each connection in order', async () => {
  const turns = new FairScheduler();
  const large = Array.from({ length: 20 }, () => openRead(turns, 1, () => busyFor(LONG_MS)));
  const small = openRead(turns, 2);
  turns.take(3, () => busyFor(LONG_MS));
  for (const { stream } of large) {
    stream.arrive('a');
    stream.arrive('b');
  }
  small.stream.arrive('c');
  const all = () => [...large, small].flatMap(({ handled }) => handled);
  expect(all()).toEqual([]);
  await expect.poll(() => small.handled, { interval: 1 }).toEqual(['c']);
  expect(all().length).toBeLessThan(20);
  await expect.poll(() => all().length).toBe(41);
  for (const { handled } of large) expect(handled).toEqual(['a', 'b']);
});

test('readInTurns() handles all small chunks of a client that has waited in one turn, and no more than 64 KB', async () => {
  const turns = new FairScheduler();
  const bytes: number[] = [];
  const { stream } = openRead(turns, 1, (chunk) => bytes.push(chunk.length));
  await turn();
  turns.take(2, () => busyFor(LONG_MS));
  for (const text of ['a', 'b', 'c', 'd', 'e'.repeat(100_000)]) stream.arrive(text);
  expect(bytes).toEqual([]);
  const pieces = [16_384, 16_384, 16_384, 16_383];
  await expect.poll(() => bytes).toEqual([1, ...pieces, 100_003 - 65_535]);
});

test('readInTurns() leaves what came meanwhile for the next turn when the slice of time is over', async () => {
  const turns = new FairScheduler();
  const bytes: number[] = [];
  const loops = new Set<number>();
  const { stream } = openRead(turns, 1, (chunk) => {
    bytes.push(chunk.length);
    loops.add(performance.nodeTiming.uvMetricsInfo.loopCount);
    busyFor(LONG_MS);
  });
  await turn();
  turns.take(2, () => busyFor(LONG_MS));
  for (let i = 0; i < 4; i += 1) stream.arrive('a'.repeat(16_384));
  await expect.poll(() => bytes).toEqual(Array<number>(4).fill(16_384));
  expect(loops.size).toBe(4);
});

test('readInTurns() hands ws nothing that comes behind a close', async () => {
  const turns = new FairScheduler();
  const { stream, socket, handled } = openRead(turns, 1);
  turns.take(2, () => busyFor(LONG_MS));
  stream.arrive('a');
  socket.readyState = 2;
  await turn();
  await turn();
  stream.arrive('b');
  expect(handled).toEqual([]);
});

test('a gate that is closed lets nobody pause or resume the socket', () => {
  const socket = new Arriving();
  const gate = new ReadGate(socket as unknown as ReadControl);
  const [one, other] = [gate.open(), gate.open()];
  one.pause();
  gate.close();
  one.resume();
  expect(socket.isPaused()).toBe(true);
  socket.resume();
  other.pause();
  expect(socket.isPaused()).toBe(false);
});
