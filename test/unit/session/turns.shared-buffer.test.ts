import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { ReadGate, type ReadControl } from '../../../src/session/read-gate.ts';
import { FairScheduler, readInTurns } from '../../../src/session/turns.ts';

type Handle = { useUserBuffer: ((buffer: Buffer) => void) | undefined };

/** An accepted connection that is read in turns, its client, and what has been read from it. */
async function openConnection(prepare: (stream: Socket, handle: Handle) => void) {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.setNoDelay(true).on('error', () => {});
  const [stream] = await accepted;
  server.close();
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => void chunks.push(chunk));
  // oxlint-disable-next-line no-underscore-dangle -- its name
  prepare(stream, (stream as unknown as { _handle: Handle })._handle);
  const socket = { OPEN: 1, readyState: 1 } as WebSocket;
  const gate = new ReadGate(stream as unknown as ReadControl).open();
  const owner = { turns: new FairScheduler(), accountId: 1 };
  const readAll = readInTurns(socket, stream, owner, gate);
  const close = () => {
    client.destroy();
    stream.destroy();
  };
  return { stream, client, chunks, gate, readAll, close };
}

const read = (chunks: Buffer[]) => Buffer.concat(chunks);
/** Bytes of which no two places look alike. */
const bytesOf = (length: number, seed = 1) =>
  Buffer.from(Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8) * 7 + seed) % 256));

describe.each([
  ['with the internals of Node', () => {}],
  ['without them', (_stream: Socket, handle: Handle) => (handle.useUserBuffer = undefined)],
  ['that is encrypted', (stream: Socket) => void Object.assign(stream, { encrypted: true })],
] as const)('a connection %s', (_name, prepare) => {
  test('loses nothing of long and short writes, while it is paused and resumed, up to a half-close', async () => {
    const { stream, client, chunks, gate, close } = await openConnection(prepare);
    const sent: Buffer[] = [];
    const ended = once(stream, 'end');
    for (let i = 0; i < 60; i += 1) {
      const bytes = bytesOf([1, 87, 256, 257, 5000, 70_000, 300_000][i % 7]!, i);
      sent.push(bytes);
      client.write(bytes);
      if (i % 6 === 0) gate.pause();
      if (i % 6 === 3) gate.resume();
      if (i % 5 === 0) await wait(2);
    }
    client.end();
    gate.resume();
    await ended;
    const whole = Buffer.concat(sent);
    // Chunks that were kept are as they were.
    expect(read(chunks).equals(whole)).toBe(true);
    expect(stream.bytesRead).toBe(whole.length);
    const answer = once(client, 'data') as Promise<[Buffer]>;
    stream.end('bye');
    expect(String((await answer)[0])).toBe('bye');
    close();
  });

  test('keeps what comes during a pause, up to a limit, for one that has all read', async () => {
    const { stream, client, chunks, gate, readAll, close } = await openConnection(prepare);
    gate.pause();
    client.write(bytesOf(100));
    await expect.poll(() => stream.readableLength).toBe(100);
    client.write(bytesOf(2_000_000));
    await expect.poll(() => stream.readableLength).toBeGreaterThan(60_000);
    await wait(50);
    expect(stream.readableLength).toBeLessThan(200_000);
    expect(chunks).toEqual([]);
    readAll();
    expect(read(chunks).length).toBeGreaterThan(60_000);
    gate.resume();
    await expect.poll(() => read(chunks).length).toBe(2_000_100);
    close();
  });

  test('is told of a reset', async () => {
    const { stream, client, chunks, close } = await openConnection(prepare);
    const failed = once(stream, 'error') as Promise<[NodeJS.ErrnoException]>;
    client.write('a');
    await expect.poll(() => chunks.length).toBe(1);
    client.resetAndDestroy();
    expect((await failed)[0].code).toBe('ECONNRESET');
    close();
  });
});

test('a connection is read into a buffer that others use, too; short chunks that are kept keep little memory', async () => {
  const buffers: Buffer[] = [];
  const note = (_stream: Socket, handle: Handle) => {
    const use = handle.useUserBuffer!.bind(handle);
    handle.useUserBuffer = vi.fn<(buffer: Buffer) => void>((buffer) => {
      buffers.push(buffer);
      use(buffer);
    });
  };
  const connections = [await openConnection(note), await openConnection(note)] as const;
  expect(buffers).toHaveLength(2);
  expect(buffers[0]).toBe(buffers[1]);
  for (let i = 0; i < 20; i += 1) {
    for (const [n, { client, chunks }] of connections.entries()) {
      client.write(bytesOf(87, i + n));
      await expect.poll(() => chunks.length, { interval: 1 }).toBe(i + 1);
    }
  }
  for (const [n, { chunks, close }] of connections.entries()) {
    expect(chunks).toEqual(chunks.map((_, i) => bytesOf(87, i + n)));
    expect(Math.max(...chunks.map(({ buffer }) => buffer.byteLength))).toBeLessThanOrEqual(1024);
    expect(chunks.every(({ byteOffset }) => byteOffset % 2 === 0)).toBe(true);
    close();
  }
});

test('a connection is read 16 KB at a time, however much waits', async () => {
  const { stream, client, chunks, gate, close } = await openConnection(() => {});
  gate.pause();
  client.write(bytesOf(1_000_000));
  await expect.poll(() => stream.readableLength).toBeGreaterThan(16_384);
  gate.resume();
  await expect.poll(() => read(chunks).length).toBe(1_000_000);
  expect(Math.max(...chunks.map(({ length }) => length))).toBe(16_384);
  close();
});

test('a connection that was upgraded has what came with the upgrade, before it was read in turns, and after', async () => {
  const http = createHttpServer().listen(0, '127.0.0.1');
  await once(http, 'listening');
  const upgraded = once(http, 'upgrade') as Promise<[unknown, Socket, Buffer]>;
  const client = connect((http.address() as AddressInfo).port, '127.0.0.1').setNoDelay(true);
  client.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\nhead');
  const [, stream, head] = await upgraded;
  // The stream was not read by a listener so far.
  client.write('before');
  await expect.poll(() => stream.readableLength).toBe(6);
  const chunks = [head];
  stream.pause().on('data', (chunk: Buffer) => void chunks.push(chunk));
  const socket = { OPEN: 1, readyState: 1 } as WebSocket;
  const gate = new ReadGate(stream as unknown as ReadControl).open();
  readInTurns(socket, stream, { turns: new FairScheduler(), accountId: 1 }, gate);
  stream.resume();
  for (let i = 0; i < 100; i += 1) client.write('after');
  await expect.poll(() => read(chunks).toString()).toBe(`headbefore${'after'.repeat(100)}`);
  client.destroy();
  stream.destroy();
  http.close();
});
