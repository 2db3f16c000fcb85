import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { Readable, type Writable } from 'node:stream';
import { expect, test } from 'vitest';
import * as ws from 'ws';
import { type Destination, Handover, type Unread } from '../../../src/handover/handover.ts';
import { ReadGate, type ReadControl } from '../../../src/session/read-gate.ts';
import { readInTurns, type FairScheduler } from '../../../src/session/turns.ts';
import { clientFrame } from '../../support/raw-client.ts';

type WebSocket = ws.WebSocket;
/** The parser of ws, which its types leave out. */
const { Receiver } = ws as unknown as {
  Receiver: new (options: { isServer: boolean }) => Writable;
};

/** A connection whose bytes come when the test says so. */
class Connection extends Readable {
  readonly writableLength = 0;
  readonly _handle = { readStop: () => 0 };

  override _read(): void {}
}

/** A client at the gate, read by the parser of ws in turns that come when the test says so. */
function openGate(destinationOf: (text: string) => Destination) {
  const waiting: (() => void)[] = [];
  const turns = {
    begin: () => false,
    isSliceOver: () => false,
    take: (_accountId: number, start: () => void) => void waiting.push(start),
  };
  const stream = new Connection();
  const socket = Object.assign(new EventEmitter(), { OPEN: 1, readyState: 1 });
  const receiver = new Receiver({ isServer: true });
  receiver.on('message', (data: Buffer, isBinary: boolean) =>
    socket.emit('message', data, isBinary),
  );
  stream.on('data', (chunk: Buffer) => void receiver.write(chunk));
  const here: string[] = [];
  const moved: { texts: string[]; bytes: Buffer }[] = [];
  let isKept = false;
  const note = ({ messages, bytes }: Unread) =>
    moved.push({ texts: messages.map(({ data }) => String(data)), bytes });
  let readAll = () => {};
  const handover = new Handover(socket as unknown as WebSocket, stream as unknown as Socket, {
    destinationOf: (data) => destinationOf(String(data)),
    onMessage: (data) => here.push(String(data)),
    onStay: () => (isKept = true),
    readAll: () => readAll(),
    send: (_to, unread) => note(unread),
  });
  const owner = { turns: turns as unknown as FairScheduler, accountId: 1 };
  const gate = new ReadGate(stream as unknown as ReadControl).open();
  readAll = readInTurns(socket as unknown as WebSocket, stream as unknown as Socket, owner, gate);
  const nextTurn = () => waiting.shift()?.();
  return { handover, stream, nextTurn, here, moved, isKept: () => isKept };
}

const tick = () => new Promise(setImmediate);

test('messages at the gate are handled when the turn of their client comes', async () => {
  const { stream, nextTurn, here } = openGate(() => 'undecided');
  stream.push(Buffer.concat(Array.from({ length: 3 }, () => clientFrame(Buffer.alloc(0)))));
  await tick();
  expect(here).toEqual([]);
  nextTurn();
  expect(here).toEqual(['', '', '']);
});

test('a client that is handed over takes along all that has come, handled or not', async () => {
  const { stream, nextTurn, here, moved } = openGate((text) => (text === 'join' ? 2 : 'undecided'));
  const last = clientFrame('three').subarray(0, 5);
  stream.push(clientFrame('hello'));
  await tick();
  stream.push(Buffer.concat([clientFrame('join'), clientFrame('one')]));
  // Waits in the stream, which is not read while a turn is waited for.
  stream.push(Buffer.concat([clientFrame('two'), last]));
  nextTurn();
  nextTurn();
  await tick();
  expect(here).toEqual(['hello']);
  expect(moved).toEqual([{ texts: ['join', 'one', 'two'], bytes: last }]);
});

test('a client that stays is read on', async () => {
  const { stream, nextTurn, here, isKept, handover } = openGate(() => 'here');
  stream.push(clientFrame('one'));
  await tick();
  nextTurn();
  expect(isKept()).toBe(true);
  expect(here).toEqual(['one']);
  handover.close();
});
