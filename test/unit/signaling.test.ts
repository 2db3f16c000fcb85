import { EventEmitter } from 'node:events';
import { describe, expect, test } from 'vitest';
import type { WebSocket } from 'ws';
import { BadMessageBudget } from '../../src/signaling/bad-message-budget.ts';
import { parseClientMessage } from '../../src/protocol/messages.ts';
import { checkName } from '../../src/signaling/names.ts';
import { SendQueue } from '../../src/signaling/send-queue.ts';

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

  test('carries the id of a message that it refuses', () => {
    expect(() => parseClientMessage('{"type":"join","id":"42"}')).toThrow(
      expect.objectContaining({ replyTo: '42', code: 'bad_message' }),
    );
  });
});

describe('checkName()', () => {
  const check = (name: string) => checkName(name, 'room', 'bad_request');

  test.each(['a', 'Küche', '会議室', '👩‍👩‍👧‍👦', 'with space', '_x', 'x'.repeat(128), '😀'.repeat(128)])(
    'takes "%s"',
    (name) => {
      expect(check(name)).toBe(name);
    },
  );

  test.each([
    '',
    '__x',
    '__lobby__',
    'x'.repeat(129),
    '😀'.repeat(129),
    'a\nb',
    'a\0',
    '\u2028',
    '\ud800',
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

describe('SendQueue', () => {
  /** A socket that takes `readsBytes` of what it is sent, and holds the rest. */
  class FakeSocket extends EventEmitter {
    bufferedAmount = 0;
    readonly sent: (Buffer | string)[] = [];

    send(data: Buffer | string): void {
      this.sent.push(data);
      this.bufferedAmount += data.length;
    }
  }

  const open = () => {
    const socket = new FakeSocket();
    let slow = 0;
    let nowMs = 0;
    const queue = new SendQueue(
      socket as unknown as WebSocket,
      () => (slow += 1),
      () => nowMs,
    );
    const sendAt = (atMs: number) => {
      nowMs = atMs;
      queue.sendAudio(frame);
    };
    return { socket, queue, sendAt, slow: () => slow };
  };
  const frame = Buffer.alloc(80);

  test('sendAudio() sends all to a client that reads', () => {
    const { socket, queue, sendAt } = open();
    for (let i = 0; i < 1000; i += 1) {
      sendAt(i * 20);
      socket.bufferedAmount = 0;
    }
    expect([socket.sent.length, queue.droppedFrames]).toEqual([1000, 0]);
  });

  test('sendAudio() holds at most about 250 ms for a client that does not read, and gives up after 5 s', () => {
    const { socket, sendAt, slow } = open();
    for (let i = 0; i < 20; i += 1) {
      sendAt(i * 20);
      socket.bufferedAmount = 0;
    }
    const sentBefore = socket.sent.length;
    for (let i = 20; i < 270; i += 1) sendAt(i * 20);
    expect(socket.sent.length - sentBefore).toBeLessThanOrEqual(15);
    expect(slow()).toBe(0);
    for (let i = 270; i < 400; i += 1) sendAt(i * 20);
    expect(slow()).toBe(1);
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

  test('sendText() is never dropped, but a client that leaves a MiB of it unread is given up', () => {
    const { socket, queue, slow } = open();
    const text = 'x'.repeat(1000);
    for (let i = 0; i < 1049; i += 1) queue.sendText(text);
    expect([socket.sent.length, slow()]).toEqual([1049, 0]);
    queue.sendText(text);
    expect(slow()).toBe(1);
  });
});
