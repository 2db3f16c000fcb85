import { EventEmitter } from 'node:events';
import type { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { WebSocket } from 'ws';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { counters } from '../../../src/counters.ts';
import { Pings } from '../../../src/session/pings.ts';
import { SendQueue } from '../../../src/session/send-queue.ts';

describe('SendQueue', () => {
  /** A socket that holds what it is sent until `read()`. */
  class FakeSocket extends EventEmitter {
    readonly OPEN = 1;
    readyState = 1;
    bufferedAmount = 0;
    readonly sent: (Buffer | string)[] = [];

    send(data: Buffer | string): void {
      this.sent.push(data);
      this.bufferedAmount += data.length;
    }

    write(data: Buffer): void {
      this.send(data);
    }

    cork(): void {}
    uncork(): void {}

    get writableNeedDrain(): boolean {
      return this.bufferedAmount >= 64 * 1024;
    }

    /** The client reads all that there is. */
    read(): void {
      this.bufferedAmount = 0;
      this.emit('drain');
    }
  }

  const open = (pingEveryMs = Infinity, inTurn = (work: () => void) => work()) => {
    const socket = new FakeSocket();
    let slow = 0;
    let nowMs = 0;
    const queue = new SendQueue(
      socket as unknown as WebSocket,
      socket as unknown as Writable,
      new Pings(DEFAULT_TIMINGS.sessions),
      pingEveryMs,
      { onSlow: () => (slow += 1), onCaughtUp: () => {}, inTurn },
      () => nowMs,
    );
    const sendAt = (atMs: number) => {
      nowMs = atMs;
      queue.sendAudio(Buffer.alloc(80));
    };
    const relayAt = (atMs: number, message: Buffer) => {
      nowMs = atMs;
      queue.sendRelayed(message);
    };
    return { socket, queue, sendAt, relayAt, slow: () => slow };
  };

  const relayed = (number: number, bytes = 1000) => Buffer.alloc(bytes, number);
  const relayedIn = (sent: (Buffer | string)[]) =>
    sent
      .filter((each) => typeof each !== 'string')
      // A ping goes before the first.
      .filter((bytes) => bytes[0] !== 0x89)
      .map((bytes) => bytes.at(-1)!);

  test('sendRelayed() holds messages for a client that does not read, and sends them in order when it does', () => {
    const { socket, queue, slow } = open();
    queue.sendRelayed(relayed(0, 64 * 1024));
    for (let i = 1; i < 100; i += 1) queue.sendRelayed(relayed(i, i % 10 === 0 ? 64 * 1024 : 1));
    expect(relayedIn(socket.sent)).toEqual([0]);
    queue.sendText('{"type":"left"}');
    for (let i = 0; i < 12; i += 1) socket.read();
    expect(relayedIn(socket.sent)).toEqual(Array.from({ length: 100 }, (_, i) => i));
    queue.sendRelayed(relayed(100));
    expect(relayedIn(socket.sent).at(-1)).toBe(100);
    expect(slow()).toBe(0);
  });

  test('sendRelayed() puts a message together once for all, also where they are sent it at different times or behind a ping', () => {
    const clients = Array.from({ length: 50 }, () => open(100));
    const messages = Array.from({ length: 20 }, (_, i) => relayed(i));
    for (const [index, { relayAt }] of clients.entries()) {
      for (const [i, message] of messages.entries()) relayAt(index * 1000 + i * 20, message);
    }
    const written = clients.flatMap(({ socket }) => socket.sent as Buffer[]);
    const long = written.filter(({ length }) => length >= 1000);
    expect([long.length, new Set(long).size]).toEqual([50 * 20, 20]);
    // A ping goes before a message, in a frame of its own.
    expect(written.length).toBeGreaterThan(50 * 21);
    expect(relayedIn(clients[7]!.socket.sent)).toEqual(messages.map((_, i) => i));
  });

  test('sendRelayed() sends what waits in turn with what waits for others, in one go for a turn', () => {
    const turns: (() => void)[] = [];
    const { socket, queue } = open(Infinity, (work) => turns.push(work));
    for (let i = 0; i < 20; i += 1) queue.sendRelayed(relayed(i, 32 * 1024));
    const first = [0, 1];
    expect(relayedIn(socket.sent)).toEqual(first);
    socket.read();
    socket.read();
    expect([relayedIn(socket.sent), turns.length]).toEqual([first, 1]);
    turns.shift()!();
    expect(relayedIn(socket.sent)).toEqual([0, 1, 2, 3]);
    queue.sendRelayed(relayed(20, 32 * 1024));
    while (relayedIn(socket.sent).length < 21) {
      socket.read();
      turns.shift()!();
    }
    expect(relayedIn(socket.sent)).toEqual(Array.from({ length: 21 }, (_, i) => i));
    socket.read();
    expect(turns).toEqual([]);
  });

  test('sendRelayed() drops the oldest beyond 1 MiB or 2.5 s, and counts them', () => {
    const { socket, queue, relayAt, slow } = open();
    const before = counters.dropped.unread;
    relayAt(0, relayed(255, 64 * 1024));
    for (let i = 0; i < 30; i += 1) relayAt(i * 10, relayed(i, 64 * 1024));
    const kept = 15;
    expect(counters.dropped.unread - before).toBe(30 - kept);
    for (let i = 0; i < 30; i += 1) socket.read();
    const newest = Array.from({ length: kept }, (_, i) => 30 - kept + i);
    expect(relayedIn(socket.sent)).toEqual([255, ...newest]);
    relayAt(1000, relayed(255, 64 * 1024));
    for (let ms = 1000; ms <= 20_000; ms += 20) relayAt(ms, relayed(1));
    expect(queue.waitingMs).toBe(2500);
    expect(slow()).toBe(0);
  });

  test('sendRelayed() sends nothing behind a close', () => {
    const { socket, queue } = open();
    socket.readyState = 2;
    queue.sendRelayed(relayed(1));
    expect(socket.sent).toEqual([]);
  });

  test('sendAudio() sends all to a client that reads', () => {
    const { socket, queue, sendAt } = open();
    for (let i = 0; i < 1000; i += 1) {
      sendAt(i * 20);
      socket.bufferedAmount = 0;
    }
    expect([socket.sent.length, queue.droppedFrames]).toEqual([1000, 0]);
  });

  test('sendAudio() sends nothing behind a close', () => {
    const { socket, sendAt } = open();
    sendAt(0);
    socket.readyState = 2;
    sendAt(20);
    expect(socket.sent).toHaveLength(1);
  });

  test('sendAudio() holds at most about 250 ms in the socket for a client that does not read', () => {
    const { socket, sendAt, slow } = open();
    for (let i = 0; i < 20; i += 1) {
      sendAt(i * 20);
      socket.bufferedAmount = 0;
    }
    const sentBefore = socket.sent.length;
    for (let i = 20; i < 1000; i += 1) sendAt(i * 20);
    expect(socket.sent.length - sentBefore).toBeLessThanOrEqual(15);
    expect(slow()).toBe(0);
  });

  test.each([
    ['eight talkers, each apart', 8, 20],
    ['packets of 120 ms', 1, 120],
  ])('sendAudio() of %s: holds as much time of it', (_, perMoment, everyMs) => {
    const { socket, queue, sendAt } = open();
    for (let atMs = 0; atMs < 1000; atMs += everyMs) {
      for (let i = 0; i < perMoment; i += 1) sendAt(atMs);
    }
    const heldMs = (socket.sent.length / perMoment) * everyMs;
    expect(heldMs).toBeGreaterThanOrEqual(240);
    expect(heldMs).toBeLessThanOrEqual(250 + 1.5 * everyMs);
    expect(Math.round(queue.unsentMs)).toBeGreaterThan(250);
  });

  test('sendAudio() of what a client reads late, but reads: all of it, and no more waits than it has not read', () => {
    const { socket, queue, sendAt, slow } = open();
    for (let i = 0; i < 500; i += 1) {
      sendAt(i * 20);
      if (i % 25 === 0) queue.sendText('x'.repeat(300));
      // It is 200 ms behind.
      const unread = socket.sent.slice(-10);
      socket.bufferedAmount = unread.reduce((sum, { length }) => sum + length, 0);
      expect(queue.unsentMs).toBeLessThanOrEqual(200);
    }
    expect([queue.droppedFrames, slow()]).toEqual([0, 0]);
  });

  test('sendAudio() goes on where the client reads again', () => {
    const { socket, sendAt, slow } = open();
    for (let i = 0; i < 200; i += 1) sendAt(i * 20);
    socket.bufferedAmount = 0;
    for (let i = 200; i < 600; i += 1) {
      sendAt(i * 20);
      socket.bufferedAmount = 0;
    }
    expect([socket.sent.length > 400, slow()]).toEqual([true, 0]);
  });

  test('sendText() is never dropped, but a client that leaves a MiB of it in the socket is given up', () => {
    const { socket, queue, slow } = open();
    const text = 'x'.repeat(1000);
    for (let i = 0; i < 1049; i += 1) queue.sendText(text);
    expect([socket.sent.length, slow()]).toEqual([1049, 0]);
    queue.sendText(text);
    expect(slow()).toBe(1);
  });
});
