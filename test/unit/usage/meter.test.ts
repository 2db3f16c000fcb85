import { describe, expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import {
  MAX_ROOMS_A_MINUTE,
  Meter,
  type MinuteCount,
  OTHER_ROOMS,
} from '../../../src/usage/meter.ts';
import { seededRandom } from '../../support/random.ts';
import { LONGEST_STEP_MS } from '../../support/usage.ts';

/** Both clocks, turned by hand; the calendar can be set to something else. */
class HandClock {
  #wall: number;
  #monotonic = 0;
  /** Number of times that the time was asked for: each room that is metered asks. */
  reads = 0;

  constructor(start: string) {
    this.#wall = Date.parse(start);
  }

  wallMs = () => this.#wall;
  monotonicMs = () => {
    this.reads += 1;
    return this.#monotonic;
  };

  pass(ms: number): void {
    this.#wall += ms;
    this.#monotonic += ms;
  }

  jump(ms: number): void {
    this.#wall += ms;
  }
}

const sumOf = (counts: MinuteCount[]) =>
  counts.reduce((sum, { websocketMs, webrtcMs }) => sum + websocketMs + webrtcMs, 0);

describe('Meter', () => {
  test('take() gives the time of each kind of peer, by minute, and the most that were there at once', () => {
    const clock = new HandClock('2026-11-21T08:13:50Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    const leaveFirst = meter.enter(7, 'a', 'websocket');
    clock.pass(5000);
    meter.enter(7, 'a', 'webrtc');
    clock.pass(10_000);
    leaveFirst();
    clock.pass(2000);
    const place = { writer: expect.any(String) as string, accountId: 7, room: 'a', peakPeers: 2 };
    expect(meter.take()).toEqual([
      { ...place, minute: '2026-11-21T08:13', websocketMs: 10_000, webrtcMs: 5000 },
      { ...place, minute: '2026-11-21T08:14', websocketMs: 5000, webrtcMs: 7000 },
    ]);
  });

  test('a small step back of the clock after the turn of a minute takes nothing from the minute that was written', () => {
    const clock = new HandClock('2026-11-21T08:13:00Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    const store = new Map<string, MinuteCount>();
    const report = () => {
      const counts = meter.take();
      for (const count of counts) store.set(`${count.writer}|${count.minute}`, count);
      meter.written(counts);
    };
    meter.enter(7, 'a', 'websocket');
    const leave = meter.enter(7, 'a', 'websocket');
    for (let passedMs = 0; passedMs < 60_000; passedMs += 5000) {
      clock.pass(passedMs < 55_000 ? 5000 : 5100);
      report();
    }
    clock.pass(100);
    leave();
    clock.pass(4900);
    clock.jump(-500);
    report();
    expect(sumOf([...store.values()])).toBe(2 * 60_200 + 4900);
  });

  test('take() gives only what has changed since it was written', () => {
    const clock = new HandClock('2026-11-21T08:13:00Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    const leave = meter.enter(7, 'a', 'websocket');
    clock.pass(5000);
    const counts = meter.take();
    leave();
    meter.written(counts);
    expect(meter.take()).toEqual([]);
    expect(meter.activeAccounts()).toEqual([]);
  });

  test('take() of at most some counts leaves the others to the next call', () => {
    const clock = new HandClock('2026-11-21T08:13:30Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    for (const room of ['a', 'b', 'c']) meter.enter(7, room, 'websocket');
    clock.pass(45_000);
    const first = meter.take(4);
    expect(first).toHaveLength(4);
    meter.written(first);
    const rest = meter.take();
    expect(sumOf([...first, ...rest])).toBe(3 * 45_000);
  });

  test('a write that fails loses nothing: the next has it all', () => {
    const clock = new HandClock('2026-11-21T08:13:30Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    meter.enter(7, 'a', 'websocket');
    for (let write = 0; write < 24; write += 1) {
      clock.pass(5000);
      meter.take();
    }
    expect(sumOf(meter.take())).toBe(120_000);
  });

  test('the turn of a month: each month has what passed in it', () => {
    const clock = new HandClock('2028-02-29T23:59:58Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    meter.enter(7, 'a', 'websocket');
    clock.pass(5000);
    const counts = meter.take();
    expect(counts.map(({ minute, websocketMs }) => [minute, websocketMs])).toEqual([
      ['2028-02-29T23:59', 2000],
      ['2028-03-01T00:00', 3000],
    ]);
  });

  test('the peak of a room is that of all nodes, also in a minute in which nobody comes', () => {
    const clock = new HandClock('2026-11-21T08:13:50Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    meter.resize(7, 'a', 5);
    meter.enter(7, 'a', 'websocket');
    meter.resize(7, 'a', 3);
    clock.pass(5000);
    meter.resize(7, 'a', 2);
    clock.pass(10_000);
    expect(meter.take()).toMatchObject([
      { minute: '2026-11-21T08:13', peakPeers: 3, websocketMs: 10_000 },
      { minute: '2026-11-21T08:14', peakPeers: 2, websocketMs: 5000 },
    ]);
  });

  test('the peak of a room that was empty for a while is that of those that came after', () => {
    const clock = new HandClock('2026-11-21T12:00:10Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    const pass = (ms: number) => {
      for (let passedMs = 0; passedMs < ms; passedMs += 5000) {
        clock.pass(5000);
        meter.written(meter.take());
      }
    };
    const leave = meter.enter(7, 'a', 'websocket');
    meter.resize(7, 'a', 50);
    pass(40_000);
    leave();
    // Until the first minute is final, it is kept, and its room with it.
    pass(30_000);
    meter.enter(7, 'a', 'websocket');
    meter.resize(7, 'a', 1);
    clock.pass(5000);
    expect(meter.take()).toMatchObject([{ minute: '2026-11-21T12:01', peakPeers: 1 }]);
  });

  test('leaving twice counts once', () => {
    const clock = new HandClock('2026-11-21T08:13:00Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    const leave = meter.enter(7, 'a', 'websocket');
    clock.pass(1000);
    leave();
    leave();
    clock.pass(9000);
    expect(sumOf(meter.take())).toBe(1000);
  });

  test('of an hour in which a process stood still only the longest step is counted', () => {
    const clock = new HandClock('2026-11-21T08:13:00Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    meter.enter(7, 'a', 'websocket');
    clock.pass(3_600_000);
    expect(sumOf(meter.take())).toBe(LONGEST_STEP_MS);
  });

  test('a peer that was on another node while its own stood still is counted once, but for one interval of writes', () => {
    const { usage, nodes } = DEFAULT_TIMINGS;
    const clock = new HandClock('2026-11-21T08:13:00Z');
    const open = () => new Meter(clock, usage.writeEveryMs + nodes.deadAfterMs);
    const [stopped, other] = [open(), open()];
    stopped.enter(7, 'a', 'websocket');
    clock.pass(5000);
    stopped.accrue();
    clock.pass(nodes.deadAfterMs);
    other.enter(7, 'a', 'websocket');
    for (let passedMs = nodes.deadAfterMs; passedMs < 40_000; passedMs += 1000) {
      clock.pass(1000);
      other.accrue();
    }
    const countedMs = sumOf([...stopped.take(), ...other.take()]);
    expect(countedMs).toBeLessThanOrEqual(45_000 + usage.writeEveryMs);
    expect(countedMs).toBeGreaterThanOrEqual(45_000);
  });

  test('rooms that are left within a minute are forgotten, also when the same minute counts them again', () => {
    const clock = new HandClock('2026-11-21T08:13:00Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    const report = () => meter.written(meter.take());
    for (let call = 0; call < 20_000; call += 1) {
      const leave = meter.enter(7 + (call % 3), `call-${call % 19_000}`, 'websocket');
      clock.pass(10);
      leave();
      if (call % 100 === 0) report();
    }
    report();
    // A written count is kept while time may be added to its minute.
    clock.pass(60_000 + LONGEST_STEP_MS);
    report();
    const before = clock.reads;
    expect(meter.take()).toEqual([]);
    expect(clock.reads - before).toBe(0);
  });

  test('a stay of no time is not recorded, and nothing is kept of it', () => {
    const clock = new HandClock('2026-11-21T08:13:00Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    for (let room = 0; room < 3000; room += 1) meter.enter(7, `room ${room}`, 'websocket')();
    const before = clock.reads;
    expect(meter.take()).toEqual([]);
    expect(clock.reads - before).toBe(0);
    meter.enter(7, 'real', 'websocket');
    clock.pass(1000);
    expect(meter.take()).toMatchObject([{ room: 'real', websocketMs: 1000, peakPeers: 1 }]);
  });

  test('of more rooms than are counted singly in a minute the rest is one record, and the sum is exact', () => {
    const clock = new HandClock('2026-11-21T08:13:00Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    const rooms = MAX_ROOMS_A_MINUTE + 500;
    const store = new Map<string, MinuteCount>();
    const report = () => {
      const counts = meter.take();
      for (const count of counts) store.set(`${count.minute}|${count.room}`, count);
      meter.written(counts);
    };
    for (let room = 0; room < rooms; room += 1) {
      const leave = meter.enter(7, `room ${room}`, 'websocket');
      const leaveToo = meter.enter(7, `room ${room}`, 'webrtc');
      clock.pass(20);
      leave();
      leaveToo();
      if (room % 300 === 0) report();
    }
    report();
    const counts = [...store.values()];
    expect(counts.length).toBe(MAX_ROOMS_A_MINUTE + 1);
    expect(sumOf(counts)).toBe(rooms * 40);
    const others = counts.find(({ room }) => room === OTHER_ROOMS);
    expect(others).toMatchObject({ websocketMs: 10_000, webrtcMs: 10_000, peakPeers: 2 });
    clock.pass(60_000);
    meter.enter(7, 'next minute', 'websocket');
    clock.pass(1000);
    expect(meter.take().map(({ room }) => room)).toEqual(['next minute']);
  });

  test('a room that may not be counted separately counts among the others, once there is a count again by itself', () => {
    const clock = new HandClock('2026-11-21T08:13:00Z');
    let counts = 2;
    const asked: unknown[] = [];
    const meter = new Meter(clock, LONGEST_STEP_MS, (...account) => {
      asked.push(account);
      counts -= 1;
      return counts >= 0;
    });
    for (const room of ['a', 'b', 'c', 'd']) meter.enter(7, room, 'websocket');
    expect(asked).toEqual(Array.from({ length: 4 }, () => [7, 0]));
    clock.pass(5000);
    const timesOf = (taken: MinuteCount[]) =>
      Object.fromEntries(taken.map(({ room, websocketMs }) => [room, websocketMs]));
    const first = meter.take();
    expect(timesOf(first)).toEqual({ a: 5000, b: 5000, [OTHER_ROOMS]: 10_000 });
    meter.written(first);
    counts = 1;
    clock.pass(5000);
    expect(timesOf(meter.take())).toEqual({ a: 10_000, b: 10_000, c: 5000, [OTHER_ROOMS]: 15_000 });
  });

  test('while nothing can be written, counts of ever new rooms are bounded', () => {
    const clock = new HandClock('2026-11-21T08:00:00Z');
    const meter = new Meter(clock, LONGEST_STEP_MS);
    for (let call = 0; call < 60_000; call += 1) {
      const leave = meter.enter(7, `call-${call}`, 'websocket');
      clock.pass(40);
      leave();
    }
    const counts = meter.take();
    expect(counts.length).toBeLessThan(20_100);
    expect(sumOf(counts)).toBe(60_000 * 40);
  });

  test.each(Array.from({ length: 10 }, (_, seed) => seed))(
    'random joins, leaves, writes, clock jumps and small steps back over days: the sum of a simple model (seed %i)',
    (seed) => {
      const random = seededRandom(seed);
      const pick = (n: number) => Math.floor(random() * n);
      const clock = new HandClock('2026-10-30T00:00:00Z');
      const meter = new Meter(clock, LONGEST_STEP_MS);
      const present: { account: number; leave: () => void }[] = [];
      const model = new Map<number, number>();
      const store = new Map<string, MinuteCount>();
      const write = () => {
        const counts = meter.take();
        for (const count of counts) {
          const { writer, accountId, minute, room } = count;
          store.set([writer, accountId, minute, room].join('|'), count);
        }
        // Now and then the answer gets lost, and the same is written again.
        if (random() < 0.8) meter.written(counts);
      };
      for (let step = 0; step < 4000; step += 1) {
        const passedMs = pick(30_000);
        clock.pass(passedMs);
        for (const { account } of present) model.set(account, (model.get(account) ?? 0) + passedMs);
        if (random() < 0.01) clock.jump(pick(7_200_000) - 3_600_000);
        if (random() < 0.1) clock.jump(-100 - pick(3900));
        const action = random();
        if (action < 0.3) {
          const account = pick(3) + 1;
          const kind = random() < 0.5 ? 'websocket' : 'webrtc';
          present.push({ account, leave: meter.enter(account, `room ${pick(4)}`, kind) });
        } else if (action < 0.6 && present.length > 0) {
          present.splice(pick(present.length), 1)[0]!.leave();
        }
        write();
      }
      for (const [account, ms] of model) {
        const counted = [...store.values()].filter(({ accountId }) => accountId === account);
        expect(sumOf(counted)).toBe(ms);
      }
    },
  );
});
