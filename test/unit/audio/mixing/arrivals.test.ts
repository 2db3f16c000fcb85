import { describe, expect, test } from 'vitest';
import {
  Arrivals,
  bestMomentMs,
  Punctuality,
  TickMoment,
} from '../../../../src/audio/mixing/arrivals.ts';

test('the moment after which none waits long is the one before the longest pause', () => {
  expect(bestMomentMs([])).toBeUndefined();
  expect(bestMomentMs([7])).toBe(7);
  expect(bestMomentMs([1, 5, 103])).toBe(5);
  expect(bestMomentMs([18, 2])).toBe(2);
});

const arrivalsAt = (timesMs: number[]) => {
  const arrivals = new Arrivals();
  for (const [i, atMs] of timesMs.entries()) arrivals.add(i * 960, atMs);
  return arrivals;
};

/** Times of `count` packets that come every 20 ms, each up to `jitterMs` later. */
const timesOf = (count: number, jitterMs = 0) =>
  Array.from({ length: count }, (_, i) => 1000 + i * 20 + ((i * 7) % 10) * (jitterMs / 9));

test('the latest moment of a speaker is the end of the part of the 20 ms in which its packets come', () => {
  expect(arrivalsAt([]).latestMomentMs).toBeUndefined();
  expect(arrivalsAt([1007]).latestMomentMs).toBe(7);
  // Around the end of the 20 ms.
  expect(arrivalsAt([1018, 1041, 1060, 1079, 1101]).latestMomentMs).toBe(1);
  expect(arrivalsAt(timesOf(100, 6)).latestMomentMs).toBe(6);
  // 2 s after a packet that was late it counts no more.
  expect(arrivalsAt([1005, ...timesOf(99)]).latestMomentMs).toBe(5);
  expect(arrivalsAt([1005, ...timesOf(100)]).latestMomentMs).toBe(0);
  // After a pause its packets may come at another moment.
  expect(arrivalsAt([...timesOf(5), 9007, 9027]).latestMomentMs).toBe(7);
});

test('packets with jitter come at no particular moment', () => {
  expect(arrivalsAt(timesOf(100, 9)).latestMomentMs).toBeUndefined();
  expect(arrivalsAt(timesOf(100, 60)).latestMomentMs).toBeUndefined();
});

test.each([2, 3, 6])('%d packets in one message come at one moment', (packets) => {
  const timesMs = Array.from(
    { length: 60 },
    (_, i) => 1013 + Math.floor(i / packets) * packets * 20,
  );
  expect(arrivalsAt(timesMs).latestMomentMs).toBe(13);
});

test('the pace of a client that sends 120 ms in one message: six packets at once, each less late than the one before', () => {
  const arrivals = new Arrivals();
  expect(arrivals.pace).toBeUndefined();
  // Before a pause of a second by the clock only: it tells nothing.
  arrivals.add(0, -1000);
  for (let i = 0; i < 7; i += 1) arrivals.add(i * 960, Math.floor(i / 6) * 120);
  const last = { timestamp: 6 * 960, atMs: 120 };
  expect(arrivals.pace).toEqual({ ...last, quickestMs: -100, lateMs: 100 });
});

/** Packets of 20 ms that come at once, but for those to which `lateMs` gives a delay; those are added in the order of their arrival. */
function arrivalsWith(count: number, lateMs: (number: number) => number) {
  const arrivals = new Arrivals();
  const packets = Array.from({ length: count }, (_, i) => ({
    timestamp: i * 960,
    atMs: 1000 + i * 20 + lateMs(i),
  }));
  for (const { timestamp, atMs } of packets.toSorted((a, b) => a.atMs - b.atMs))
    arrivals.add(timestamp, atMs);
  return arrivals;
}

describe('a delay that does not recur is no part of the pace', () => {
  const counts = [1, 2, 5, 10, 15, 20, 24].map((since) => 50 + since);

  test.each(counts)('one stall of 300 ms until the 50th packet, at the packet %i', (count) => {
    const stall = (i: number) => (i >= 35 && i < 50 ? (49 - i) * 20 : 0);
    expect(arrivalsWith(count, stall).pace!.lateMs).toBe(0);
    // The held packets come in 70 ms.
    const slowly = (i: number) => (i >= 35 && i < 50 ? (49 - i) * 15 : 0);
    expect(arrivalsWith(count, slowly).pace!.lateMs).toBe(0);
  });

  test.each(counts)('one packet that comes 120 ms late as the 50th, at the packet %i', (count) => {
    expect(arrivalsWith(count, (i) => (i === 44 ? 121 : 0)).pace!.lateMs).toBe(0);
  });

  test('a delay that two messages have is one', () => {
    expect(arrivalsWith(70, (i) => (i === 50 || i === 60 ? 121 : 0)).pace!.lateMs).toBe(121);
    expect(arrivalsWith(70, (i) => (i === 50 ? 121 : i === 60 ? 41 : 0)).pace!.lateMs).toBe(41);
  });
});

test.each([2.5, 5, 10, 20])(
  'the pace of a client that sends 85.3 ms in one message, in packets of %f ms: as late as the latest but for a packet, or half of one of 20 ms',
  (packetMs) => {
    const arrivals = new Arrivals();
    const messageMs = 4096 / 48;
    for (let [message, sent] = [1, 0]; message < 60; message += 1) {
      for (; (sent + 1) * packetMs <= message * messageMs; sent += 1)
        arrivals.add(sent * packetMs * 48, 1000 + message * messageMs);
      if (message < 10) continue;
      expect(arrivals.pace!.lateMs).toBeGreaterThanOrEqual(messageMs - Math.min(packetMs, 10));
      expect(arrivals.pace!.lateMs).toBeLessThanOrEqual(messageMs);
    }
  },
);

/** Speakers that have sent for 2 s, each at its phase of the 20 ms, and up to `jitterMs` later. */
const speakersAt = (phasesMs: number[], jitterMs = 0) =>
  phasesMs.map((phaseMs) => ({
    arrivals: arrivalsAt(timesOf(100, jitterMs).map((atMs) => atMs + phaseMs)),
  }));

/** Returns the decision of the 25th tick of a room. */
function decide(speakers: ReturnType<typeof speakersAt>, tickMs: number) {
  const moment = new TickMoment();
  for (let i = 1; i < 25; i += 1) expect(moment.better(speakers, tickMs)).toBeUndefined();
  const move = moment.better(speakers, tickMs);
  return move && { phaseMs: move.dueMs % 20, isLater: move.isLater };
}

test('ticks come sooner if all packets wait longer than necessary', () => {
  expect(decide(speakersAt([0]), 2015)).toEqual({ phaseMs: 5, isLater: false });
  expect(decide(speakersAt([0, 4]), 2017)).toEqual({ phaseMs: 9, isLater: false });
});

test('ticks come later if a packet would be missed for sooner ones', () => {
  // At 6 the packet of 5 waits 21 ms; at 15 none waits longer than 15.
  expect(decide(speakersAt([0, 5, 10]), 2006)).toEqual({ phaseMs: 15, isLater: true });
});

test('ticks stay if another moment is hardly better, if there is nobody, and for speakers with jitter', () => {
  expect(decide(speakersAt([0]), 2008)).toBeUndefined();
  expect(decide([], 2000)).toBeUndefined();
  expect(decide(speakersAt([0], 12), 2015)).toBeUndefined();
});

test('ticks that have moved are told by how much, and a pause of the ticks is no move', () => {
  const moment = new TickMoment();
  const moves = [1000, 1020, 1048, 1068, 1080, 2000, 2020].map((tickMs) => moment.noteTick(tickMs));
  expect(moves).toEqual([0, 0, 8, 0, -8, 0, 0]);
});

test('a speaker with jitter does not keep ticks from coming sooner', () => {
  const speakers = [...speakersAt([0]), ...speakersAt([3], 60)];
  expect(decide(speakers, 2015)).toEqual({ phaseMs: 5, isLater: false });
});

test('ticks come later once in 5 s at most', () => {
  const moment = new TickMoment();
  const speakers = speakersAt([0, 5, 10]);
  // They stay where they are, as on a crowded clock.
  const moves = Array.from({ length: 1000 }, () => moment.better(speakers, 2006));
  expect(moves.filter((move) => move?.isLater)).toHaveLength(4);
});

test.each([
  [true, false],
  [false, true],
])('Punctuality.isEarly(), 660 ms handed on at once, from a pacer: %s: %s', (isPaced, isEarly) => {
  const punctuality = new Punctuality();
  punctuality.isPaced = isPaced;
  for (let packet = 0; packet < 11; packet += 1) punctuality.queue.add(60 * 48, 1000);
  expect(punctuality.isEarly(1000)).toBe(isEarly);
});
