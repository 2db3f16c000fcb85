import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import type { WebSocket } from 'ws';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import { RequestLimits } from '../../../src/session/request-limits.ts';
import { Session } from '../../../src/session/session.ts';
import type { SessionParts } from '../../../src/session/session-parts.ts';
import { FairScheduler } from '../../../src/session/turns.ts';

/** Length of text that a client may leave unread, bytes. */
const MAX_UNREAD_BYTES = 1 << 20;

/** Turns that never come. */
class NoTurns extends FairScheduler {
  override take(): void {}
}

class FakeSocket extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  isPaused = false;
  bufferedAmount = 0;
  readonly texts: { type: string; code?: string; reason?: string }[] = [];
  readonly closes: number[] = [];

  send(text: string): void {
    this.texts.push(JSON.parse(text) as (typeof this.texts)[number]);
    this.bufferedAmount += text.length;
  }

  close(code: number): void {
    this.closes.push(code);
  }

  ping(): void {}
  pause(): void {}
  resume(): void {}
}

class FakeStream extends EventEmitter {
  readonly bytesRead = 0;
  cork(): void {}
  uncork(): void {}
  read(): void {}
  pause(): void {}
  resume(): void {}
  end(): void {}
}

const log = { info: () => {}, debug: () => {}, warn: () => {}, error: () => {} };

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

let socket: FakeSocket;
let ends: string[];
let session: Session;
/** A session in a room, whose `leave` waits for its turn. */
beforeEach(() => {
  socket = new FakeSocket();
  ends = [];
  const account = { id: 1, plan: 'pro' };
  const peer = {
    kind: 'websocket',
    speaker: 1,
    audioStats: { droppedMs: 0, concealedMs: 0 },
    others: () => [],
    resume: () => {},
    listen: () => {},
    close: () => {},
  };
  const kept = [{ place: { room: 'r', peer, release: () => {} } }];
  const parts = {
    stream: new FakeStream() as unknown as Socket,
    id: 'session',
    credentials: { account, grant: undefined },
    peer: 'p',
    audio: {
      in: 'auto',
      pinned: undefined,
      out: undefined,
      delivery: 'mix',
      unknownOut: undefined,
    },
    wantsStats: false,
    requestLimits: Object.assign(new RequestLimits(1000, DEFAULT_TIMINGS.budgets), {
      turns: new NoTurns(),
    }),
    places: { keepMs: 0, get: () => kept[0], take: () => kept.pop() },
    codecs,
    timings: DEFAULT_TIMINGS.sessions,
    log,
    onPlace: () => {},
    giveUpElsewhere: () => undefined,
    onClosed: (reason: string) => ends.push(reason),
  };
  session = new Session(socket as unknown as WebSocket, parts as unknown as SessionParts);
  const place = { room: 'r', isHere: true, kind: 'websocket' } as const;
  session.start(
    { max_ccu: 1, current_ccu: 1, remaining_minutes: 1 },
    { room: 'r', network: '127.0.0.1' },
    { place },
  );
  session.receive(Buffer.from('{"type":"leave"}'), false);
  socket.texts.length = 0;
});

test('a client that has left is told so at its end, and ends once', () => {
  expect(session.isIdle).toBe(false);
  socket.emit('close', 1006);
  socket.emit('close', 1006);
  expect(socket.texts).toMatchObject([{ type: 'left', reason: 'left' }]);
  expect(ends).toEqual(['closed']);
});

test('a session does not end a second time when more is unread than a client may leave before it is told that it has left', () => {
  socket.bufferedAmount = MAX_UNREAD_BYTES + 1;
  socket.emit('close', 1006);
  expect(ends).toEqual(['closed']);
  // The client is not told that it is slow, either.
  expect([socket.texts, socket.closes]).toEqual([[], []]);
});

test('a session that ends for a fault ends for that alone when the fault is the last that a client may leave unread', () => {
  socket.bufferedAmount = MAX_UNREAD_BYTES;
  session.replace();
  socket.emit('close', 1006);
  expect(ends).toEqual(['replaced']);
  expect(socket.texts.map(({ code }) => code)).toEqual(['replaced']);
  expect(socket.closes).toHaveLength(1);
});
