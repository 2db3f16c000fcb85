import { EventEmitter } from 'node:events';
import type { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { WebSocket } from 'ws';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { counters } from '../../../src/counters.ts';
import { Pings } from '../../../src/session/pings.ts';
import { type MissedEvents, SendQueue } from '../../../src/session/send-queue.ts';

const FRAME_MS = 20;
const STEP_MS = 5;
const PING = 0x89;
const PING_BYTES = 6;

type Sent = { atMs: number; bytes: Buffer | string };
type Heard = { sentAtMs: number; heardAtMs: number };
type Behaviour = {
  /** Round trip, which may change. */
  rttMs?: number | ((atMs: number) => number);
  /** Returns whether the client reads at a time. */
  reads?: (atMs: number) => boolean;
  answers?: 'all' | 'latest' | 'none';
};

/** A client behind a kernel that takes whatever it is sent; time is virtual. */
class SimulatedClient extends EventEmitter {
  readonly OPEN = 1;
  readonly readyState = 1;
  readonly bufferedAmount = 0;
  readonly writableNeedDrain = false;
  isPaused = false;
  nowMs = 0;
  readonly heard: Heard[] = [];
  readonly texts: string[] = [];
  readonly pingsAtMs: number[] = [];
  readonly caughtUp: MissedEvents[] = [];
  slow = 0;
  readonly pings = new Pings(DEFAULT_TIMINGS.sessions);
  readonly queue: SendQueue;
  readonly #behaviour: Behaviour;
  readonly #underWay: Sent[] = [];
  readonly #answers: { atMs: number; payload: Buffer }[] = [];

  constructor(behaviour: Behaviour) {
    super();
    this.#behaviour = behaviour;
    this.queue = new SendQueue(
      this as unknown as WebSocket,
      this as unknown as Writable,
      this.pings,
      DEFAULT_TIMINGS.sessions.soundPingEveryMs,
      {
        onSlow: () => (this.slow += 1),
        onCaughtUp: (missed) => this.caughtUp.push(missed),
        inTurn: (work) => work(),
      },
      () => this.nowMs,
    );
    this.write(this.pings.frame(0));
  }

  cork(): void {}
  uncork(): void {}

  send(text: string): void {
    this.#underWay.push({ atMs: this.nowMs, bytes: text });
  }

  write(bytes: Buffer): void {
    if (bytes[0] === PING) this.pingsAtMs.push(this.nowMs);
    this.#underWay.push({ atMs: this.nowMs, bytes });
  }

  /** Time of sound that has been sent and that the client has not read. */
  get underWayMs(): number {
    return this.#underWay.filter(({ bytes }) => hasSound(bytes)).length * FRAME_MS;
  }

  /** Sends a frame each 20 ms while `speaks`. */
  run(
    untilMs: number,
    speaks: (atMs: number) => boolean = () => true,
    send: 'sendAudio' | 'sendRelayed' = 'sendAudio',
  ): void {
    for (; this.nowMs < untilMs; this.nowMs += STEP_MS) {
      this.#read();
      while (this.#answers[0] && this.#answers[0].atMs <= this.nowMs) {
        this.queue.answered(this.#answers.shift()!.payload, this.nowMs);
      }
      if (this.nowMs % FRAME_MS === 0 && speaks(this.nowMs)) this.queue[send](Buffer.alloc(80));
    }
  }

  #read(): void {
    const { rttMs = 0, reads = () => true, answers = 'all' } = this.#behaviour;
    if (!reads(this.nowMs)) return;
    const tripMs = (typeof rttMs === 'number' ? rttMs : rttMs(this.nowMs)) / 2;
    const payloads: Buffer[] = [];
    while (this.#underWay[0] && this.#underWay[0].atMs + tripMs <= this.nowMs) {
      const { atMs, bytes } = this.#underWay.shift()!;
      if (typeof bytes === 'string') this.texts.push(bytes);
      else if (bytes[0] === PING) payloads.push(bytes.subarray(2, PING_BYTES));
      if (hasSound(bytes)) this.heard.push({ sentAtMs: atMs, heardAtMs: this.nowMs });
    }
    const answered = answers === 'all' ? payloads : answers === 'latest' ? payloads.slice(-1) : [];
    for (const payload of answered) this.#answers.push({ atMs: this.nowMs + tripMs, payload });
  }
}

const hasSound = (bytes: Buffer | string) =>
  typeof bytes !== 'string' && (bytes[0] !== PING || bytes.length > PING_BYTES);

/** A client that reads but for some time. */
const stalled = (fromMs: number, lastsMs: number) => (atMs: number) =>
  atMs < fromMs || atMs >= fromMs + lastsMs;

describe('a client that stops reading', () => {
  const stalls = [3000, 10_000, 25_000].flatMap((lastsMs) =>
    [0, 40, 300, 1500].flatMap((rttMs) =>
      (['all', 'latest'] as const).map((answers) => [lastsMs, rttMs, answers] as const),
    ),
  );

  test.each(stalls)(
    'for %i ms, at a round trip of %i ms, answering %s pings: 1 s under way, and live within 1 s',
    (lastsMs, rttMs, answers) => {
      for (const fromMs of [6000, 6095, 6205]) {
        const client = new SimulatedClient({ rttMs, answers, reads: stalled(fromMs, lastsMs) });
        client.run(fromMs + lastsMs);
        expect(client.underWayMs).toBeLessThanOrEqual(1000 + (rttMs > 1000 ? rttMs : 0));
        const endMs = client.nowMs;
        client.run(endMs + 4000);
        const live = client.heard.filter(
          ({ sentAtMs, heardAtMs }) => heardAtMs > endMs && heardAtMs - sentAtMs <= rttMs / 2 + 20,
        );
        expect(live[0]!.heardAtMs).toBeLessThanOrEqual(endMs + 1000 + (rttMs > 1000 ? rttMs : 0));
        expect(live.at(-1)!.heardAtMs - live[0]!.heardAtMs).toBeCloseTo(
          (live.length - 1) * FRAME_MS,
          -2,
        );
        expect(client.slow).toBe(0);
      }
    },
  );

  test.each([600, 3000, 25_000])(
    'for %i ms, while messages of unknown formats come: hears 1 s of the past and the newest message, then what is said then',
    (lastsMs) => {
      for (const fromMs of [6000, 6095, 6205]) {
        const client = new SimulatedClient({ rttMs: 40, reads: stalled(fromMs, lastsMs) });
        const droppedBefore = counters.dropped.unread;
        client.run(fromMs + lastsMs, () => true, 'sendRelayed');
        const endMs = client.nowMs;
        client.run(endMs + 4000, () => true, 'sendRelayed');
        const past = client.heard.filter(
          ({ heardAtMs }) => heardAtMs >= endMs && heardAtMs < endMs + 200,
        );
        expect(past.length * FRAME_MS).toBeLessThanOrEqual(1000 + FRAME_MS + 200);
        expect(client.heard.at(-1)!.heardAtMs).toBeGreaterThan(endMs + 3900);
        const sent = Math.ceil(client.nowMs / FRAME_MS);
        client.run(client.nowMs + 100, () => false);
        expect(client.heard.length + counters.dropped.unread - droppedBefore).toBe(sent);
      }
    },
  );

  test('and had long messages of an unknown format for it: hears the newest whole', () => {
    const client = new SimulatedClient({ reads: stalled(3000, 10_000) });
    client.run(15_000, (atMs) => atMs % 2000 === 0, 'sendRelayed');
    // The gateway notices the stall when it has the message of 8 s, which waits until that of 10 s
    // comes.
    expect(client.heard.map(({ sentAtMs }) => sentAtMs)).toEqual([
      0, 2000, 4000, 6000, 13_000, 14_000,
    ]);
  });

  test('again and again: 1 s under way each time', () => {
    const reads = (atMs: number) => atMs % 5000 < 1500;
    const client = new SimulatedClient({ rttMs: 50, reads });
    for (let endMs = 5000; endMs <= 60_000; endMs += 5000) {
      client.run(endMs);
      expect(client.underWayMs).toBeLessThanOrEqual(1000);
    }
  });

  test('before it has heard anything: 1 s under way', () => {
    const client = new SimulatedClient({ reads: stalled(1000, 10_000) });
    client.run(11_000, (atMs) => atMs >= 2000);
    expect(client.underWayMs).toBeLessThanOrEqual(1000);
  });

  test('while speakers pause again and again: 1 s under way', () => {
    const client = new SimulatedClient({ reads: stalled(5000, 25_000) });
    client.run(30_000, (atMs) => atMs % 800 < 200);
    expect(client.underWayMs).toBeLessThanOrEqual(1000);
  });

  test('tells how much sound waits for it', () => {
    const client = new SimulatedClient({ rttMs: 40, reads: stalled(5000, 10_000) });
    client.run(5000);
    expect(client.queue.waitingMs).toBeLessThanOrEqual(60);
    client.run(15_000);
    expect(Math.abs(client.queue.waitingMs - client.underWayMs)).toBeLessThanOrEqual(240);
    client.run(16_000);
    expect(client.queue.waitingMs).toBeLessThanOrEqual(60);
  });

  test('is told the outcome of what happened in its room, and everything else in order', () => {
    const client = new SimulatedClient({ reads: stalled(2000, 10_000) });
    client.run(6000);
    const event = (type: string) => client.queue.queueText(JSON.stringify({ type }));
    for (const type of ['peer_joined', 'peer_left', 'peer_changed'])
      expect(event(type)).toBe(false);
    client.queue.sendText('{"type":"error"}');
    client.queue.sendText('{"type":"left"}');
    client.queue.flush();
    client.run(13_000);
    expect(client.texts).toEqual(['{"type":"error"}', '{"type":"left"}']);
    expect(client.caughtUp).toEqual([{ peers: true, speaking: false, sound: true }]);
    expect(event('speaking')).toBe(true);
    client.queue.flush();
    client.run(14_000);
    expect(client.texts.at(-1)).toBe('{"type":"speaking"}');
  });

  test('and is sent no sound meanwhile: it has missed none', () => {
    const client = new SimulatedClient({ reads: stalled(2000, 10_000) });
    client.run(2500);
    for (let i = 0; i < 3; i += 1) {
      client.run(client.nowMs + 200, () => false);
      client.queue.queueText('{"type":"speaking"}');
    }
    client.run(13_000, () => false);
    expect(client.caughtUp).toEqual([{ peers: false, speaking: true, sound: false }]);
  });

  test('and leaves 1 MiB of text unread: it is given up, once', () => {
    const client = new SimulatedClient({ reads: stalled(2000, 60_000) });
    client.run(4000);
    const text = 'x'.repeat(1024);
    for (let i = 0; i < 1024; i += 1) client.queue.sendText(text);
    expect(client.slow).toBe(0);
    for (let i = 0; i < 10; i += 1) client.queue.sendText(text);
    expect(client.slow).toBe(1);
  });

  test('and has read half of that before it stops again: only what is unread counts', () => {
    const client = new SimulatedClient({ reads: (atMs) => atMs % 10_000 < 2000 });
    for (const stalledAtMs of [4000, 14_000]) {
      client.run(stalledAtMs);
      for (let i = 0; i < 600; i += 1) client.queue.sendText('x'.repeat(1024));
    }
    expect(client.slow).toBe(0);
  });

  test('measures its path again with the first sound when it reads again', () => {
    for (const fromMs of [3000, 3085, 3170, 3255]) {
      const client = new SimulatedClient({ rttMs: 40, reads: stalled(fromMs, 3000) });
      client.run(fromMs + 4000);
      const live = client.heard.find(({ sentAtMs }) => sentAtMs >= fromMs + 3000);
      expect(client.pingsAtMs).toContain(live?.sentAtMs);
    }
  });

  test('is known by two looks in a row while the gateway reads', () => {
    const pings = new Pings(DEFAULT_TIMINGS.sessions);
    pings.answered(pings.payload(0), 20);
    pings.payload(100);
    expect(pings.checkStall(700, true)).toBe(false);
    expect(pings.checkStall(740, false)).toBe(false);
    expect(pings.checkStall(780, true)).toBe(false);
    expect(pings.checkStall(820, true)).toBe(true);
  });
});

describe('a client that reads hears every frame', () => {
  const everyFrame = (client: SimulatedClient, untilMs: number) => {
    client.run(untilMs);
    return client.queue.droppedFrames;
  };

  test.each([0, 40, 300, 550, 650, 800, 1000, 1500, 3000])('at a round trip of %i ms', (rttMs) => {
    for (const answers of ['all', 'latest', 'none'] as const) {
      expect(everyFrame(new SimulatedClient({ rttMs, answers }), 30_000)).toBe(0);
    }
  });

  test('and reads only every half second', () => {
    const reads = (atMs: number) => atMs % 500 === 0;
    expect(everyFrame(new SimulatedClient({ reads }), 30_000)).toBe(0);
  });

  test('and never answers, whatever it does', () => {
    const client = new SimulatedClient({ answers: 'none', reads: stalled(1000, 20_000) });
    expect(everyFrame(client, 30_000)).toBe(0);
    expect(client.pingsAtMs.length).toBeLessThanOrEqual(32);
  });

  test('while the gateway does not read its answers', () => {
    const client = new SimulatedClient({ reads: stalled(1000, 3000) });
    client.isPaused = true;
    expect(everyFrame(client, 6000)).toBe(0);
  });

  test.each([900, 1500, 2500])('after its path has become longer: %i ms', (rttMs) => {
    const client = new SimulatedClient({ rttMs: (atMs) => (atMs < 5000 ? 50 : rttMs) });
    client.run(5000 + 5 * rttMs);
    const dropped = client.queue.droppedFrames;
    expect(dropped * FRAME_MS).toBeLessThanOrEqual(4 * rttMs);
    client.run(40_000);
    expect(client.queue.droppedFrames).toBe(dropped);
  });

  test('with at most four pings in any second, and none while nobody speaks', () => {
    const client = new SimulatedClient({ rttMs: 30, reads: stalled(20_000, 5000) });
    client.run(30_000, (atMs) => atMs < 10_000 || atMs > 15_000);
    const { pingsAtMs } = client;
    for (const atMs of pingsAtMs) {
      expect(pingsAtMs.filter((other) => other >= atMs && other < atMs + 1000).length).toBeLessThan(
        5,
      );
    }
    expect(pingsAtMs.filter((atMs) => atMs > 10_000 && atMs < 15_000)).toEqual([]);
  });

  test('with pings by the duration of sound: pauses between single packets count as none', () => {
    const client = new SimulatedClient({ rttMs: 30 });
    client.run(20_000, (atMs) => atMs % 1000 === 0);
    // A packet counts as 120 ms at most.
    expect(client.pingsAtMs.length).toBeLessThanOrEqual(1 + Math.ceil((20 * 120) / 400) + 1);
  });
});

test.each(['sendAudio', 'sendRelayed'] as const)(
  'pings to many listeners of %s: 400 ms apart, at moments of their own',
  (send) => {
    const clients = Array.from({ length: 20 }, () => new SimulatedClient({}));
    for (const client of clients) client.run(8000, () => true, send);
    const laterPings = clients.map(({ pingsAtMs }) => pingsAtMs.filter((atMs) => atMs > 5000));
    for (const pingsAtMs of laterPings) {
      const apartMs = pingsAtMs.slice(1).map((atMs, index) => atMs - pingsAtMs[index]!);
      expect(new Set(apartMs)).toEqual(new Set([400]));
    }
    expect(new Set(laterPings.map(([firstMs]) => firstMs)).size).toBeGreaterThan(3);
  },
);
