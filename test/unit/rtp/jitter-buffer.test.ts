import { describe, expect, test } from 'vitest';
import { JitterBuffer } from '../../../src/rtp/jitter-buffer.ts';

const newBuffer = () => new JitterBuffer({ minMs: 5, maxMs: 200 });

function packet(sequenceNumber: number, timestamp = sequenceNumber * 960) {
  return {
    ssrc: 1,
    sequenceNumber: sequenceNumber & 0xffff,
    timestamp: timestamp >>> 0,
    payloadType: 100,
    marker: false,
    audioLevel: 30,
    payload: Buffer.from(String(sequenceNumber & 0xffff)),
  };
}

const taken = (buffer: JitterBuffer, nowMs: number) => {
  const next = buffer.take(nowMs);
  return typeof next === 'string' ? next : next.payload.toString();
};

describe('JitterBuffer', () => {
  test('take() is empty until the first packet has been held long enough', () => {
    const buffer = newBuffer();
    expect(taken(buffer, 0)).toBe('empty');
    buffer.insert(packet(1), 960, 0);
    expect(taken(buffer, 4)).toBe('empty');
    expect(taken(buffer, 5)).toBe('1');
  });

  test('at the beginning 400 ms that come at once are held beyond the limit, until playback has caught up', () => {
    const buffer = newBuffer();
    for (let i = 0; i < 20; i += 1) buffer.insert(packet(i), 960, 400);
    for (let i = 0; i < 20; i += 1) {
      expect(taken(buffer, 405 + 20 * i)).toBe(String(i));
      buffer.insert(packet(20 + i), 960, 410 + 20 * i);
    }
    for (let i = 20; i < 40; i += 1) expect(taken(buffer, 805)).toBe(String(i));
    for (let i = 40; i < 60; i += 1) buffer.insert(packet(i), 960, 1200);
    // The limit holds again.
    expect(buffer.depthMs).toBe(200);
    expect(buffer.droppedPackets).toBe(10);
  });

  test.each([1, 65_530])('take() gives packets in order, from sequence number %i', (start) => {
    const buffer = newBuffer();
    for (const offset of [0, 2, 1, 4, 3, 6, 5, 7]) buffer.insert(packet(start + offset), 960, 0);
    const order = Array.from({ length: 8 }, () => taken(buffer, 200));
    expect(order).toEqual(Array.from({ length: 8 }, (_, i) => String((start + i) & 0xffff)));
  });

  test('take() says lost for a missing packet while later ones are held', () => {
    const buffer = newBuffer();
    buffer.insert(packet(1), 960, 0);
    buffer.insert(packet(3), 960, 0);
    expect([taken(buffer, 5), taken(buffer, 25), taken(buffer, 45)]).toEqual(['1', 'lost', '3']);
  });

  test.each([
    [false, ['empty', '4', '5']],
    [true, ['empty', 'lost', '4']],
  ])(
    'after the stream has run dry take() leaves out what is missing; with copies (%s) all but the last of it',
    (hasCopies, expected) => {
      const buffer = newBuffer();
      const next = (nowMs: number) => {
        const packetOrNone = buffer.take(nowMs, hasCopies);
        return typeof packetOrNone === 'string' ? packetOrNone : packetOrNone.payload.toString();
      };
      buffer.insert(packet(1), 960, 0);
      expect(next(5)).toBe('1');
      const dry = next(25);
      buffer.insert(packet(4), 960, 60);
      buffer.insert(packet(5), 960, 80);
      expect([dry, next(85), next(105)]).toEqual(expected);
    },
  );

  test('insert() drops and counts what comes twice or after its turn', () => {
    const buffer = newBuffer();
    buffer.insert(packet(1), 960, 0);
    buffer.insert(packet(1), 960, 0);
    buffer.insert(packet(3), 960, 0);
    taken(buffer, 5);
    taken(buffer, 25);
    buffer.insert(packet(2), 960, 30);
    expect(buffer.droppedPackets).toBe(2);
  });

  test('the target grows at once with lateness and decays on a quiet network', () => {
    const buffer = newBuffer();
    const late = (i: number) => (i === 50 ? 80 : 0);
    for (let i = 0; i < 51; i += 1) buffer.insert(packet(i), 960, i * 20 + late(i));
    expect(buffer.targetMs).toBeCloseTo(80, 0);
    for (let i = 51; i < 700; i += 1) {
      buffer.insert(packet(i), 960, i * 20);
      taken(buffer, i * 20);
    }
    expect(buffer.targetMs).toBe(5);
  });

  test.each([
    ['wraps at 2³¹', 2 ** 31 - 96_000],
    ['wraps at 2³²', 2 ** 32 - 96_000],
  ])('the target stays what it is where the timestamp %s', (_, start) => {
    const buffer = newBuffer();
    buffer.insert(packet(0, 0), 960, 0);
    // It has talked since, for half a day or a whole one.
    for (let i = 0; i < start / 960_000; i += 1) {
      buffer.insert(packet(i, i * 960_000), 960, i * 20_000);
    }
    for (let i = 0; i < 400; i += 1) {
      buffer.insert(packet(i, start + i * 960), 960, start / 48 + i * 20);
      expect(buffer.targetMs).toBe(5);
    }
  });

  test.each([-1e9, -480_000, 480_000, 1e9])(
    'the target stays what it is where the timestamp jumps by %i',
    (jump) => {
      const buffer = newBuffer();
      for (let i = 0; i < 50; i += 1) buffer.insert(packet(i), 960, i * 20);
      for (let i = 50; i < 200; i += 1) buffer.insert(packet(i, jump + i * 960), 960, i * 20);
      expect(buffer.targetMs).toBe(5);
    },
  );

  test('packets lost beyond the limit are not counted as dropped', () => {
    const buffer = newBuffer();
    buffer.insert(packet(0), 960, 0);
    taken(buffer, 5);
    for (let i = 600; i < 612; i += 1) buffer.insert(packet(i), 960, i * 20);
    expect(buffer.droppedPackets).toBe(2);
  });

  test('never holds more than its limit and 400 ms, however much comes', () => {
    const buffer = newBuffer();
    for (let i = 0; i < 500; i += 1) buffer.insert(packet(i), 960, 0);
    expect(buffer.depthMs).toBeLessThanOrEqual(600);
    expect(buffer.droppedPackets).toBeGreaterThan(0);
  });

  test('holds two packets of 120 ms that come at once after a stall', () => {
    const buffer = newBuffer();
    for (let i = 0; i < 2; i += 1) buffer.insert(packet(i), 5760, 0);
    expect([buffer.depthMs, buffer.droppedPackets]).toEqual([240, 0]);
  });

  test('a sequence number far away begins the stream anew', () => {
    const buffer = newBuffer();
    buffer.insert(packet(1), 960, 0);
    buffer.insert(packet(20_000), 960, 10);
    expect(taken(buffer, 30)).toBe('20000');
  });
});

test.each([
  [0, 5],
  [5, 5],
  [6, 7],
  [7.5, 10],
  [8, 11],
  [50, 53],
])(
  'a first packet of a sender that is up to %d ms late can be played after %d ms',
  (lateMs, afterMs) => {
    const pace = { timestamp: 0, atMs: 0, quickestMs: 0, lateMs };
    const buffer = new JitterBuffer({ minMs: 5, maxMs: 200 }, pace);
    buffer.startAt(1);
    buffer.insert(packet(1), 960, 20);
    expect(buffer.isReady(960, 20 + afterMs - 0.5)).toBe(false);
    expect(buffer.isReady(960, 20 + afterMs)).toBe(true);
  },
);
