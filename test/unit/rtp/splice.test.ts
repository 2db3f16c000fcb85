import { describe, expect, test } from 'vitest';
import type { MediaPacket } from '../../../src/rtp/packet.ts';
import { Splice } from '../../../src/rtp/splice.ts';

describe('a splice of streams', () => {
  const packet = (sequenceNumber: number, timestamp: number): MediaPacket => ({
    sequenceNumber,
    timestamp,
    marker: false,
    audioLevel: undefined,
    payload: Buffer.alloc(0),
  });
  const numbers = ({ sequenceNumber, timestamp }: MediaPacket) => [sequenceNumber, timestamp];

  test('leaves the first as it is, and goes on with its numbers in the next', () => {
    const splice = new Splice();
    splice.cut();
    const first = packet(65_535, 4_294_967_000);
    expect(splice.join(first, 0)).toBe(first);
    expect(numbers(splice.join(packet(65_534, 4_294_966_040), 5))).toEqual([65_534, 4_294_966_040]);
    splice.cut();
    // 40 ms after the last, and after it in order, out of order, and again.
    expect(numbers(splice.join(packet(7, 100), 40))).toEqual([0, 1624]);
    expect(numbers(splice.join(packet(9, 2020), 60))).toEqual([2, 3544]);
    expect(numbers(splice.join(packet(8, 1060), 61))).toEqual([1, 2584]);
    splice.cut();
    expect(numbers(splice.join(packet(30_000, 0), 80))).toEqual([3, 4504]);
    expect(numbers(splice.join(packet(30_001, 960), 100))).toEqual([4, 5464]);
  });

  /** Packets of 20 ms with the numbers from `from` to before `to`, the first at `atMs`. */
  const come = (splice: Splice, from: number, to: number, atMs: number, everyMs = 20) =>
    Array.from({ length: to - from }, (_, i) =>
      splice.join(packet(from + i, (from + i) * 960), atMs + i * everyMs),
    );

  test.each([1, 100, 900])(
    'an encoder that begins anew %i numbers earlier, unannounced: it goes on after half a second',
    (back) => {
      const splice = new Splice();
      const first = 1000;
      come(splice, first, first + 50, 0);
      const from = first + 49 - back;
      const joined = come(splice, from, from + 100, 1000);
      const ahead = joined.findIndex(({ sequenceNumber }) => sequenceNumber > first + 49);
      expect(ahead).toBe(Math.min(back + 1, 26));
      expect(joined.slice(ahead).map(({ sequenceNumber }) => sequenceNumber)).toEqual(
        Array.from({ length: 100 - ahead }, (_, i) => first + 50 + i),
      );
    },
  );

  test.each([
    [100, 5000],
    [300, 100],
    [900, 5000],
  ])(
    'an encoder that begins anew %i numbers earlier, with timestamps %i ms later: it goes on at once',
    (back, laterMs) => {
      const splice = new Splice();
      const first = 1000;
      come(splice, first, first + 50, 0);
      const later = (number: number, atMs: number) =>
        splice.join(packet(number - back, (number * 20 + laterMs) * 48), atMs);
      const joined = Array.from({ length: 3 }, (_, i) => later(first + 50 + i, 1000 + i * 20));
      expect(joined.map(numbers)).toEqual(
        Array.from({ length: 3 }, (_, i) => [first + 50 + i, (first + 50 + i) * 960]),
      );
    },
  );

  test('a late packet whose timestamp is slightly wrong: no other stream', () => {
    const splice = new Splice();
    come(splice, 0, 50, 0);
    expect(numbers(splice.join(packet(45, 60 * 960), 1000))).toEqual([45, 60 * 960]);
    expect(numbers(splice.join(packet(50, 50 * 960), 1001))).toEqual([50, 50 * 960]);
  });

  test('retransmissions of an outage are late, among live packets and in a burst before them', () => {
    const splice = new Splice();
    come(splice, 0, 10, 0);
    come(splice, 100, 110, 2000);
    for (let i = 0; i < 80; i += 1) {
      expect(splice.join(packet(10 + i, 0), 2200 + i * 20).sequenceNumber).toBe(10 + i);
      expect(splice.join(packet(110 + i, 0), 2201 + i * 20).sequenceNumber).toBe(110 + i);
    }
    come(splice, 300, 310, 6000);
    const late = come(splice, 200, 290, 6200, 5);
    expect(late.map(({ sequenceNumber }) => sequenceNumber)).toEqual(
      Array.from({ length: 90 }, (_, i) => 200 + i),
    );
    expect(splice.join(packet(310, 0), 6700).sequenceNumber).toBe(310);
  });

  test('late packets that are not in order, however long: no other stream', () => {
    const splice = new Splice();
    come(splice, 0, 100, 0);
    for (let i = 0; i < 60; i += 1) {
      const number = 60 - i;
      expect(splice.join(packet(number, 0), 2000 + i * 20).sequenceNumber).toBe(number);
    }
  });
});
