import { describe, expect, test } from 'vitest';
import { JitterBuffer } from '../../../src/rtp/jitter-buffer.ts';
import { Pacer } from '../../../src/rtp/pacer.ts';
import { seededRandom } from '../../support/random.ts';

type Packet = {
  number: number;
  durationMs: number;
  isQuiet: boolean;
  gapMs: number;
  isSpare: boolean;
};

/** A sender and its pacer on a simulated clock of 20 ms ticks. */
function openSender({ isQuiet = (_number: number): boolean => false } = {}) {
  const pacer = new Pacer<Packet>();
  const sent: (Packet & { atMs: number })[] = [];
  let number = 0;
  let nextTickMs = 0;
  const takeAll = (atMs: number) => {
    for (let due = pacer.take(atMs); due; due = pacer.take(atMs)) sent.push({ ...due, atMs });
  };
  const until = (atMs: number) => {
    for (; nextTickMs <= atMs; nextTickMs += 20) takeAll(nextTickMs);
  };
  /** Sends one message of `packets` packets, which has been held until `heldUntilMs`. */
  const send = (atMs: number, packets = 1, heldUntilMs = atMs) => {
    until(heldUntilMs);
    for (let i = 0; i < packets; i += 1, number += 1) {
      pacer.push(
        { number, durationMs: 20, isQuiet: isQuiet(number), gapMs: 0, isSpare: false },
        atMs,
        heldUntilMs,
      );
    }
    takeAll(heldUntilMs);
  };
  return { pacer, sent, send, until };
}

const gapsOf = (sent: Packet[]) => sent.filter(({ gapMs }) => gapMs > 0).map(({ gapMs }) => gapMs);

describe('Pacer', () => {
  test('audio at its pace, with jitter: goes out as it comes, without a gap', () => {
    const { sent, send } = openSender();
    const arrivalsMs = [0, 20, 75, 76, 80, 110, 120];
    for (const atMs of arrivalsMs) send(atMs);
    expect(sent.map(({ atMs }) => atMs)).toEqual(arrivalsMs);
    expect(gapsOf(sent)).toEqual([]);
  });

  test('a pause after silence, or a long one: the next packet says how long it was', () => {
    const { sent, send } = openSender({ isQuiet: (number) => number === 1 });
    for (const atMs of [0, 20, 120, 140, 1000, 1020]) send(atMs);
    expect(gapsOf(sent)).toEqual([80, 840]);
  });

  test('a pause in the middle of sound: recognized by the messages after it, which come at their pace', () => {
    const { sent, send } = openSender();
    for (let i = 0; i < 5; i += 1) send(i * 20);
    for (let i = 0; i < 10; i += 1) send(300 + i * 20);
    expect(gapsOf(sent)).toEqual([200]);
  });

  test('a stall of 300 ms and its burst: no gap, nothing lost, and sent at once', () => {
    const { sent, send, pacer } = openSender();
    for (let i = 0; i < 50; i += 1) send(i * 20);
    for (let i = 50; i < 65; i += 1) send(1300 + (i - 50) / 10);
    for (let i = 65; i < 100; i += 1) send(i * 20 + 2);
    expect(gapsOf(sent)).toEqual([]);
    expect(sent.map(({ number }) => number)).toEqual(Array.from({ length: 100 }, (_, i) => i));
    expect(pacer.droppedMs).toBe(0);
  });

  test('a stall of 140 ms in silence, and its burst: only the pause after the talk is shortened, not a closure in a word', () => {
    const isQuiet = (number: number) =>
      number < 10 || (number >= 90 && number < 93) || (number >= 120 && number < 150);
    const { sent, send, until, pacer } = openSender({ isQuiet });
    for (let i = 0; i < 2; i += 1) send(i * 20);
    for (let i = 2; i < 9; i += 1) send(180 + i / 10);
    for (let i = 9; i < 250; i += 1) send(i * 20);
    until(6000);
    const numbers = new Set(sent.map(({ number }) => number));
    const dropped = Array.from({ length: 250 }, (_, i) => i).filter((i) => !numbers.has(i));
    expect(pacer.droppedMs).toBeGreaterThanOrEqual(80);
    expect(dropped.every((number) => number >= 126 && number < 150)).toBe(true);
  });

  test('a sender that stays ahead without a pause is brought back to real time after 3 s', () => {
    const { sent, send, until, pacer } = openSender({ isQuiet: (number) => number < 10 });
    for (let i = 0; i < 2; i += 1) send(i * 20);
    for (let i = 2; i < 9; i += 1) send(180 + i / 10);
    for (let i = 9; i < 400; i += 1) send(i * 20);
    until(9000);
    const first = sent.find(({ number }, i) => number !== i)!;
    expect(first.atMs).toBeGreaterThan(3000);
    expect(first.atMs).toBeLessThan(5500);
    expect(pacer.droppedMs).toBeGreaterThanOrEqual(40);
  });

  test.each([5, 25, 50])(
    'messages of %i packets at their pace: let out evenly, nothing lost',
    (size) => {
      const { sent, send, until, pacer } = openSender();
      const random = seededRandom(size);
      for (let i = 0; i < 40; i += 1) send(i * size * 20 + random() * 10, size);
      until(40 * size * 20 + 40);
      expect(sent).toHaveLength(40 * size);
      expect(pacer.droppedMs).toBe(0);
      const aheadMs = sent.map(({ number, atMs }) => number * 20 - atMs);
      expect(Math.max(...aheadMs)).toBeLessThanOrEqual(60);
      expect(Math.min(...aheadMs)).toBeGreaterThanOrEqual(-40);
    },
  );

  test('messages held for 400 ms go out at their pace, and later ones as late, until a pause in talk makes up for it', () => {
    const { sent, send, until, pacer } = openSender({ isQuiet: (number) => number >= 100 });
    for (let i = 0; i < 20; i += 1) send(i * 20, 1, 400);
    for (let i = 20; i < 200; i += 1) send(i * 20);
    until(5000);
    const talk = sent.filter(({ number }) => number < 100);
    expect(talk).toHaveLength(100);
    const lateMs = talk.slice(5).map(({ number, atMs }) => atMs - number * 20);
    expect(Math.min(...lateMs)).toBeGreaterThanOrEqual(360);
    expect(Math.max(...lateMs)).toBeLessThanOrEqual(400);
    expect(pacer.droppedMs).toBe(400);
    const last = sent.at(-1)!;
    expect(last.atMs - last.number * 20).toBeLessThanOrEqual(20);
  });

  test('messages held for 500 ms, in talk with pauses of 100 ms: later ones are soon no more than 200 ms late', () => {
    const { sent, send, until } = openSender({ isQuiet: (number) => number % 45 >= 40 });
    for (let i = 0; i < 25; i += 1) send(i * 20, 1, 500);
    for (let i = 25; i < 400; i += 1) send(i * 20);
    until(9000);
    const lateMs = sent
      .filter(({ number }) => number > 250)
      .map((each) => each.atMs - each.number * 20);
    expect(Math.max(...lateMs)).toBeLessThanOrEqual(200);
  });

  test('messages of an even sender that were held for 1.5 s: later ones are not more than 500 ms late', () => {
    const { sent, send, until, pacer } = openSender();
    for (let i = 0; i < 75; i += 1) send(i * 20, 1, 1500);
    for (let i = 75; i < 200; i += 1) send(i * 20);
    until(6000);
    expect(sent).toHaveLength(200);
    const lateMs = sent.slice(75).map(({ number, atMs }) => atMs - number * 20);
    expect(Math.max(...lateMs)).toBeLessThanOrEqual(500);
    expect(pacer.droppedMs).toBe(0);
  });

  test.each([
    [1000, 50, 51],
    [2000, 100, 101],
    [1000, 1, 3],
    [2000, 1, 3],
  ])(
    'pieces of %i ms in %i messages, held until the format is known with message %i: heard whole',
    (pieceMs, count, known) => {
      const { sent, send, until, pacer } = openSender();
      const atMsOf = (i: number) => Math.floor(i / count) * (pieceMs + 1) + (i % count) * 0.05;
      const heldUntilMs = atMsOf(known - 1);
      for (let i = 0; i < count * 8; i += 1) {
        send(atMsOf(i), pieceMs / 20 / count, Math.max(atMsOf(i), heldUntilMs));
      }
      until(9 * pieceMs + heldUntilMs);
      expect(sent.map(({ number }) => number)).toEqual(sent.map((_, i) => i));
      expect(sent).toHaveLength((8 * pieceMs) / 20);
      expect(pacer.droppedMs).toBe(0);
      // A jitter buffer keeps 200 ms of what comes at once.
      const buffer = new JitterBuffer({ minMs: 20, maxMs: 200 });
      let timestamp = 0;
      let tickMs = heldUntilMs;
      for (const { number, durationMs, gapMs, atMs } of sent) {
        for (; tickMs <= atMs; tickMs += 20) buffer.take(tickMs);
        timestamp += gapMs * 48;
        const packet = { sequenceNumber: number, timestamp, payload: Buffer.alloc(1) };
        buffer.insert(packet, durationMs * 48, atMs);
        timestamp += durationMs * 48;
      }
      expect(buffer.droppedPackets).toBe(0);
    },
  );

  test('held messages, and a pause of the sender: the pause is shorter by the delay', () => {
    const { sent, send, until, pacer } = openSender();
    for (let i = 0; i < 20; i += 1) send(i * 20, 1, 400);
    until(900);
    for (let i = 0; i < 20; i += 1) send(1400 + i * 20);
    expect(gapsOf(sent)).toEqual([1000 - 400]);
    expect(sent.at(-1)!.atMs).toBe(1780);
    expect(pacer.droppedMs).toBe(0);
  });

  test('held messages, and a pause shorter than their delay: the word before it is not torn', () => {
    const { sent, send, until } = openSender({ isQuiet: (number) => number >= 48 && number < 50 });
    for (let i = 0; i < 50; i += 1) send(i * 20, 1, Math.max(i * 20, 480));
    for (let i = 0; i < 50; i += 1) send(1300 + i * 20);
    until(3000);
    const next = sent.findIndex(({ number }) => number === 50);
    const apartMs = sent.map(({ atMs }, i) => atMs - (sent[i - 1]?.atMs ?? atMs));
    expect(sent.slice(0, 48).map(({ number }) => number)).toEqual([...Array(48).keys()]);
    expect(Math.max(...apartMs.slice(0, next))).toBeLessThanOrEqual(45);
    expect(apartMs[next]).toBeGreaterThanOrEqual(300);
    expect(gapsOf(sent)).toEqual([300]);
    expect(sent[next]!.gapMs).toBe(300);
  });

  test('a burst of a second from a sender that has sent evenly: 200 ms are kept, the newest, and silence is left out first', () => {
    const { sent, send, until, pacer } = openSender({ isQuiet: (number) => number > 144 });
    for (let i = 0; i < 100; i += 1) send(i * 20);
    for (let i = 0; i < 50; i += 1) send(2000 + i / 10);
    until(3000);
    expect(pacer.droppedMs).toBeGreaterThanOrEqual(700);
    expect(sent.length * 20 + pacer.droppedMs).toBe(3000);
    expect(sent.slice(-5).every(({ number }) => number >= 140)).toBe(true);
  });

  test('a message of a minute: ten seconds are kept, and when the next comes not more than is kept of any burst', () => {
    const { send, pacer } = openSender();
    send(0, 3000);
    expect(pacer.bufferedMs).toBeLessThanOrEqual(10_040);
    expect(pacer.droppedMs).toBeGreaterThanOrEqual(49_900);
    send(20);
    expect(pacer.bufferedMs).toBeLessThanOrEqual(2560);
  });

  test.each([
    [19, 'faster'],
    [21, 'slower'],
    [20 * (1 - 1500e-6), 'faster by 1500 ppm'],
    [20 * (1 + 1500e-6), 'slower by 1500 ppm'],
  ])('a packet every %f ms (%s) for 30 minutes: never far from its time', (everyMs) => {
    const { send, pacer, sent } = openSender({ isQuiet: (number) => number % 100 < 20 });
    const random = seededRandom(7);
    let furthestMs = 0;
    for (let i = 0; i * everyMs < 30 * 60_000; i += 1) {
      const atMs = i * everyMs + random() * 5;
      send(atMs);
      if (i > 1000) furthestMs = Math.max(furthestMs, Math.abs(pacer.aheadMs(atMs)));
      expect(pacer.bufferedMs).toBeLessThanOrEqual(160);
    }
    // A sender that is 5 % too fast gains 80 ms in 1.6 s of talk, and is brought back in the pause
    // after it.
    expect(furthestMs).toBeLessThan(160);
    const sentMs = sent.length * 20 + gapsOf(sent).reduce((sum, gapMs) => sum + gapMs, 0);
    const isWithinReach = Math.abs(everyMs - 20) < 0.1;
    expect(pacer.droppedMs > 0).toBe(everyMs === 19);
    // A small drift is left to receivers; a large one is brought back to real time, but for one per
    // cent.
    expect(Math.abs(sentMs / (30 * 60_000) - 1)).toBeLessThan(isWithinReach ? 0.002 : 0.011);
    expect(pacer.driftPpm / ((20 / everyMs - 1) * 1e6)).toBeGreaterThan(0.5);
    expect(pacer.driftPpm / ((20 / everyMs - 1) * 1e6)).toBeLessThan(1.5);
  });

  const quietAt = (number: number) => number > 190 && number < 290;
  test.each([
    ['500 ms', 0, 500, () => false],
    ['1.5 s', 0, 1500, () => false],
    ['8 s', 0, 8000, () => false],
    ['140 ms in silence', 0, 140, quietAt],
    ['500 ms in silence', 0, 500, quietAt],
    ['1.5 s, on a slow clock', -1500, 1500, () => false],
    ['1.5 s, on a fast clock', 1500, 1500, () => false],
  ])('a stall of %s: the drift is that of the clock', (_, ppm, stallMs, isQuiet) => {
    const { send, pacer } = openSender({ isQuiet });
    let [least, most] = [Infinity, -Infinity];
    for (let i = 0; i < 3000; i += 1) {
      const dueMs = (i * 20) / (1 + ppm / 1e6);
      const isHeldUp = dueMs > 4000 && dueMs < 4000 + stallMs;
      send(isHeldUp ? 4000 + stallMs + i * 1e-3 : dueMs);
      least = Math.min(least, pacer.driftPpm);
      most = Math.max(most, pacer.driftPpm);
    }
    expect(least).toBeGreaterThan(-100 + 1.2 * Math.min(0, ppm));
    expect(most).toBeLessThan(100 + 1.2 * Math.max(0, ppm));
    expect(Math.abs(pacer.driftPpm - ppm)).toBeLessThan(200);
  });
});
