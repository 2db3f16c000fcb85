import { EventEmitter } from 'node:events';
import type { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { counters } from '../../../src/counters.ts';
import { binaryFrame } from '../../../src/session/binary-frame.ts';
import { BadMessageBudget } from '../../../src/session/bad-message-budget.ts';
import { mayComeBackAfterClose } from '../../../src/session/resumable.ts';
import { Heartbeat } from '../../../src/session/heartbeat.ts';
import { Pings } from '../../../src/session/pings.ts';
import { parseClientMessage } from '../../../src/protocol/client-messages.ts';
import { checkName } from '../../../src/protocol/names.ts';
import { SendQueue } from '../../../src/session/send-queue.ts';

describe('parseClientMessage()', () => {
  test.each([
    [{ type: 'join', room: 'a' }],
    [{ type: 'join', room: 'a', media: 'webrtc', id: '7' }],
    [{ type: 'leave' }],
    [{ type: 'leave', unknown_field: [1, 2] }],
  ])('takes %j', (message) => {
    expect(parseClientMessage(JSON.stringify(message))).toEqual(message);
  });

  test.each([
    ['{"type":"join"', 'Not JSON'],
    ['"join"', 'JSON object'],
    ['null', 'JSON object'],
    ['[]', 'JSON object'],
    ['{}', 'JSON object'],
    ['{"type":7}', 'JSON object'],
    ['{"type":"joyn"}', 'Unknown type'],
    ['{"type":"constructor"}', 'Unknown type'],
    ['{"type":"join"}', 'room'],
    ['{"type":"join","room":7}', 'room'],
    ['{"type":"join","room":"a","media":"video"}', 'media'],
    ['{"type":"produce","transport_id":"t","kind":"audio","rtp_parameters":"x"}', 'rtp_parameters'],
  ])('refuses %s', (text, reason) => {
    expect(() => parseClientMessage(text)).toThrow(reason);
  });

  test.each(['12345678901234567891', '-9007199254740992', '1e300'])(
    'refuses the id %s, which an answer could not carry as it came',
    (id) => {
      const refuse = () => parseClientMessage(`{"type":"leave","id":${id}}`);
      expect(refuse).toThrow('send it as a string');
      expect(refuse).toThrow(expect.objectContaining({ replyTo: undefined }));
    },
  );

  test.each([9007199254740991, 0, -7, 1764168585.123])('takes the id %d', (id) => {
    expect(parseClientMessage(JSON.stringify({ type: 'leave', id }))).toMatchObject({ id });
  });

  test('carries the id of a message that it refuses', () => {
    expect(() => parseClientMessage('{"type":"join","id":"42"}')).toThrow(
      expect.objectContaining({ replyTo: '42', code: 'bad_message' }),
    );
  });
});

describe('checkName()', () => {
  const check = (name: string) => checkName(name, 'room', 'bad_request');

  test.each([
    'a',
    'Küche',
    '会議室',
    '👩‍👩‍👧‍👦',
    'with space',
    '_x',
    '❤️',
    'می\u200cخواهم',
    '\ue000',
    '...',
    '.a',
    'x'.repeat(128),
    '😀'.repeat(128),
  ])('takes "%s"', (name) => {
    expect(check(name)).toBe(name);
  });

  test.each([
    '',
    '.',
    '..',
    '__x',
    '__lobby__',
    'x'.repeat(129),
    '😀'.repeat(129),
    'a\nb',
    'a\0',
    '\u2028',
    '\ud800',
    ' ',
    '\u00a0',
    '\u3164',
    'P\u200b',
    '\u202ekcaJ',
    '\ufeffa',
    '\ufffe',
    '\ufe0f',
  ])('refuses %j', (name) => {
    expect(() => check(name)).toThrow(expect.objectContaining({ code: 'bad_request' }));
  });
});

test('BadMessageBudget.spend() is true for the 20th bad message in 10 s, not for slower ones', () => {
  const fast = new BadMessageBudget();
  const answers = Array.from({ length: 20 }, (_, i) => fast.spend(i * 500));
  expect(answers.indexOf(true)).toBe(19);
  const slow = new BadMessageBudget();
  expect(Array.from({ length: 100 }, (_, i) => slow.spend(i * 600))).not.toContain(true);
});

describe('mayComeBackAfterClose()', () => {
  test.each([1000, 1001, 1005, 3000, 4000, 4999])('%i is meant: it does not come back', (code) => {
    expect(mayComeBackAfterClose(code)).toBe(false);
  });

  test.each([1002, 1006, 1011, 4408])('%i is a lost connection: it may', (code) => {
    expect(mayComeBackAfterClose(code)).toBe(true);
  });
});

describe('binaryFrame()', () => {
  test.each([
    [0, [0x82, 0]],
    [1, [0x82, 1]],
    [125, [0x82, 125]],
    [126, [0x82, 126, 0, 126]],
    [7680, [0x82, 126, 30, 0]],
    [65_535, [0x82, 126, 255, 255]],
    [65_536, [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]],
  ])('puts the head of RFC 6455 before %i bytes', (length, head) => {
    const payload = Buffer.alloc(length, 7);
    expect(binaryFrame(payload)).toEqual(Buffer.concat([Buffer.from(head), payload]));
  });

  test('is the same for the same payload, and another for another one with the same bytes', () => {
    const [one, other] = [Buffer.from('abc'), Buffer.from('abc')];
    expect(binaryFrame(one)).toBe(binaryFrame(one));
    const before = binaryFrame(one);
    expect(binaryFrame(other)).not.toBe(before);
    expect(binaryFrame(other)).toEqual(before);
  });
});

describe('Heartbeat', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
  afterEach(() => void vi.useRealTimers());

  /** A client that is pinged every 5 s, and is looked at every second. */
  const open = () => {
    const socket = Object.assign(new EventEmitter(), { ping: vi.fn<(payload: Buffer) => void>() });
    const pings = new Pings(DEFAULT_TIMINGS.sessions);
    const stream = { bytesRead: 200 };
    const heartbeat = new Heartbeat(socket, stream, 5000, pings, DEFAULT_TIMINGS.sessions);
    const lives = (
      seconds: number,
      client: { sends?: boolean; answers?: boolean; sendsFragments?: boolean },
      isRead = true,
    ) => {
      const told: string[] = [];
      for (let i = 0; i < seconds; i += 1) {
        vi.advanceTimersByTime(1000);
        if (client.sends) heartbeat.heardAtMs = performance.now();
        if (client.sendsFragments && i % 25 === 0) stream.bytesRead += 7;
        const count = socket.ping.mock.calls.length;
        told.push(heartbeat.beat(performance.now(), isRead));
        if (client.answers && socket.ping.mock.calls.length > count) {
          vi.advanceTimersByTime(40);
          socket.emit('pong', ...socket.ping.mock.lastCall!);
        }
      }
      return told;
    };
    return { pings, socket, lives };
  };

  test('beat() of a client that answers: alive', () => {
    const { socket, lives } = open();
    expect(new Set(lives(60, { answers: true }))).toEqual(new Set(['alive']));
    expect(socket.ping.mock.calls.length).toBeGreaterThanOrEqual(11);
  });

  test('beat() of a client that the gateway itself does not read: alive, and judged anew later', () => {
    const { lives } = open();
    lives(10, { sends: true, answers: true });
    expect(new Set(lives(60, {}, false))).toEqual(new Set(['alive']));
    expect(lives(31, {}).at(-1)).toBe('silent');
  });

  test('beat() of a client that sends, but does not answer: alive', () => {
    const { lives } = open();
    expect(new Set(lives(60, { sends: true }))).toEqual(new Set(['alive']));
  });

  test('beat() of a client that sends one message in many fragments: alive, as long as they come', () => {
    const { lives } = open();
    expect(new Set(lives(101, { sendsFragments: true }))).toEqual(new Set(['alive']));
    expect(new Set(lives(29, {}))).toEqual(new Set(['alive']));
    expect(lives(2, {}).at(-1)).toBe('silent');
  });

  test('beat() of a client of whom nothing is heard: silent after 30 s', () => {
    const { lives } = open();
    lives(10, { answers: true });
    const told = lives(36, {});
    expect(new Set(told.slice(0, 24))).toEqual(new Set(['alive']));
    expect(told.at(-1)).toBe('silent');
  });

  test('beat() does not ping while pings go out among the sound', () => {
    const { pings, socket, lives } = open();
    for (let second = 0; second < 60; second += 1) {
      pings.frame(performance.now() + 900);
      lives(1, { sends: true });
    }
    expect(socket.ping).not.toHaveBeenCalled();
  });
});

describe('Pings', () => {
  const open = () => new Pings({ unansweredMs: 600 });

  test('frame() is a ping of four bytes, and what follows it as it was', () => {
    const bytes = Buffer.from('sound');
    const frame = open().frame(0, bytes);
    expect(frame.subarray(0, 2)).toEqual(Buffer.from([0x89, 4]));
    expect(frame.subarray(6)).toEqual(bytes);
    expect(bytes).toEqual(Buffer.from('sound'));
  });

  test('answered() takes an answer for all pings before it', () => {
    const pings = open();
    const [first, second] = [pings.payload(0), pings.payload(300)];
    expect(pings.answered(second, 340)).toBe(false);
    expect([pings.rttMs, pings.checkAtMs]).toEqual([40, Infinity]);
    expect(pings.answered(first, 500)).toBe(false);
    expect(pings.rttMs).toBe(40);
  });

  test('answered() ignores pongs that answer nothing', () => {
    const pings = open();
    const payload = pings.payload(0);
    const ahead = Buffer.alloc(4);
    ahead.writeUInt32BE((payload.readUInt32BE() + 1) >>> 0);
    for (const other of [Buffer.alloc(0), Buffer.alloc(125), ahead, Buffer.alloc(4, 255)]) {
      pings.answered(other, 10);
    }
    expect(pings.rttMs).toBeUndefined();
  });

  test('checkStall() looks a second time, and not while the gateway does not read', () => {
    const pings = open();
    pings.answered(pings.payload(0), 10);
    pings.payload(1000);
    expect(pings.checkAtMs).toBe(1600);
    expect(pings.checkStall(1600, true)).toBe(false);
    expect(pings.checkStall(1700, false)).toBe(false);
    expect(pings.checkStall(1740, true)).toBe(false);
    expect(pings.checkStall(1780, true)).toBe(true);
    expect(pings.isStalled).toBe(true);
  });
});

describe('SendQueue', () => {
  /** A socket that takes `readsBytes` of what it is sent, and holds the rest. */
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
