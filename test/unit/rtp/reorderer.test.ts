import { describe, expect, test } from 'vitest';
import { Reorderer } from '../../../src/rtp/reorderer.ts';

/** A stream of packets of `packetMs`; what comes out is noted by number. */
function openStream(packetMs = 20, first = 0) {
  const reorderer = new Reorderer();
  const out: (number | 'lost')[] = [];
  const take = (nowMs: number) => {
    for (let next = reorderer.take(nowMs); next; next = reorderer.take(nowMs)) {
      out.push(next === 'lost' ? next : (next.sequenceNumber - first) & 0xffff);
    }
  };
  /** @param pausedMs by how much more its timestamp is ahead than its number says */
  const come = (number: number, nowMs = number * packetMs, pausedMs = 0) => {
    const isInTime = reorderer.insert(
      {
        sequenceNumber: (first + number) & 0xffff,
        timestamp: (number * packetMs + pausedMs) * 48,
        marker: false,
        audioLevel: 20,
        payload: Buffer.of(number),
      },
      nowMs,
    );
    take(nowMs);
    return isInTime;
  };
  return { reorderer, out, come, take };
}

const lost = (count: number) => Array<'lost'>(count).fill('lost');

describe('Reorderer', () => {
  test.each([0, 65_533])('in order, from number %i on: each goes out as it comes', (first) => {
    const { out, come } = openStream(20, first);
    for (let i = 0; i < 6; i += 1) {
      expect(come(i)).toBe(true);
      expect(out).toHaveLength(i + 1);
    }
    expect(out).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test('two that have changed places: put back, when the first of them comes', () => {
    const { out, come } = openStream();
    come(0);
    come(2, 21);
    expect(out).toEqual([0]);
    come(1, 25);
    expect(out).toEqual([0, 1, 2]);
  });

  test('one that is missing: waited for 40 ms from when it was missed, then lost', () => {
    const { out, come, take } = openStream();
    come(0);
    come(2, 40);
    come(3, 60);
    take(79);
    expect(out).toEqual([0]);
    take(80);
    expect(out).toEqual([0, 'lost', 2, 3]);
    expect(come(1, 85)).toBe(false);
    expect(out).toHaveLength(4);
  });

  test('two that are missing in different places: each is waited for as long', () => {
    const { out, come, take } = openStream();
    for (const [number, atMs] of [
      [0, 0],
      [2, 40],
      [4, 80],
    ] as const) {
      come(number, atMs);
    }
    take(119);
    expect(out).toEqual([0, 'lost', 2]);
    take(120);
    expect(out).toEqual([0, 'lost', 2, 'lost', 4]);
  });

  test('the same one twice: dropped, whether it waits or has gone out', () => {
    const { out, come } = openStream();
    come(0);
    come(2, 40);
    expect(come(2, 41)).toBe(false);
    expect(come(0, 42)).toBe(false);
    come(1, 43);
    expect(out).toEqual([0, 1, 2]);
  });

  test.each([
    [2.5, 200],
    [10, 48],
    [20, 24],
    [60, 7],
  ])('packets of %f ms, of which %i are missing, half a second: all are lost', (ms, missing) => {
    const { out, come, take } = openStream(ms);
    come(0);
    come(1);
    come(2 + missing - 1);
    take(2000);
    expect(out).toEqual([0, 1, ...lost(missing - 1), 1 + missing]);
  });

  test('more than half a second is missing: it begins anew at once', () => {
    const { out, come } = openStream();
    come(0);
    come(30);
    come(31);
    expect(out).toEqual([0, 30, 31]);
  });

  test.each([201, 30_000, -201, -30_000])(
    'a number %i away, and the timestamp near: it begins anew at once',
    (away) => {
      const { out, come } = openStream();
      come(0);
      come(1 + away, 20, -(1 + away) * 20 + 20);
      expect(out).toEqual([0, (1 + away) & 0xffff]);
    },
  );

  test('packets of an outage that come behind the first live ones are dropped', () => {
    const { out, come } = openStream();
    const numbers = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => from + i);
    for (const number of [...numbers(0, 10), 40, 41]) come(number);
    expect(numbers(10, 40).map((number) => come(number, 850))).toEqual(Array(30).fill(false));
    come(42);
    expect(out).toEqual([...numbers(0, 10), 40, 41, 42]);
  });

  test('the comfort noise of a pause that comes in the middle of the next word is dropped', () => {
    const { out, come } = openStream();
    come(0);
    come(2, 820, 780);
    come(3, 840, 780);
    expect(come(1, 850, 180)).toBe(false);
    come(4, 860, 780);
    expect(out).toEqual([0, 2, 3, 4]);
  });

  test('a pause of its sender, however long, is no gap', () => {
    const { out, come } = openStream();
    come(0);
    come(1, 5020, 5000);
    come(2, 5040, 5000);
    expect(out).toEqual([0, 1, 2]);
  });

  test('what is lost in a pause of its sender is not awaited, and the stream goes on; after more than that another begins', () => {
    const { reorderer, out, come } = openStream();
    come(0);
    come(3, 1260, 1200);
    come(4, 1280, 1200);
    come(29, 11_280, 10_700);
    expect(out).toEqual([0, 3, 4, 29]);
    expect(reorderer.streams).toBe(1);
    come(56, 12_320, 10_700);
    expect(reorderer.streams).toBe(2);
    come(58, 23_360, 21_700);
    expect(reorderer.streams).toBe(3);
    expect(out).toEqual([0, 3, 4, 29, 56, 58]);
  });

  describe('that is not asked for its packets after each', () => {
    const packetOf = (number: number) => ({
      sequenceNumber: number,
      timestamp: number * 960,
      marker: false,
      audioLevel: 20,
      payload: Buffer.of(number),
    });
    const waitingIn = (reorderer: Reorderer) =>
      [...reorderer.waiting].map(({ sequenceNumber }) => sequenceNumber);
    const take = (reorderer: Reorderer) => {
      const next = reorderer.take(0);
      return next === 'lost' ? next : next?.sequenceNumber;
    };

    test('the next one waits with those behind it, once', () => {
      const reorderer = new Reorderer();
      const arrivals = [5, 7, 5, 6, 7, 9];
      expect(arrivals.map((number) => reorderer.insert(packetOf(number), 0))).toEqual([
        true,
        true,
        false,
        true,
        false,
        true,
      ]);
      expect(waitingIn(reorderer)).toEqual([5, 7, 6, 9]);
      expect(reorderer.isOver(960)).toBe(false);
      expect([1, 2, 3, 4].map(() => take(reorderer))).toEqual([5, 6, 7, undefined]);
      expect(waitingIn(reorderer)).toEqual([9]);
    });

    test('clear(), and another stream, forget the next one', () => {
      const reorderer = new Reorderer();
      reorderer.insert(packetOf(5), 0);
      reorderer.clear();
      expect(waitingIn(reorderer)).toEqual([]);
      expect(take(reorderer)).toBe(undefined);
      reorderer.insert(packetOf(5), 0);
      reorderer.insert(packetOf(5000), 0);
      expect(waitingIn(reorderer)).toEqual([5000]);
      expect([1, 2].map(() => take(reorderer))).toEqual([5000, undefined]);
    });
  });

  test('a packet lost after a pause of 13 hours, in which the timestamp wraps half-way: of the same stream', () => {
    const pausedMs = 13 * 3_600_000;
    const { reorderer, out, come, take } = openStream();
    for (const number of [0, 1]) come(number);
    for (const number of [2, 3, 5]) come(number, pausedMs + number * 20, pausedMs);
    take(pausedMs + 200);
    expect(out).toEqual([0, 1, 2, 3, 'lost', 5]);
    expect(reorderer.streams).toBe(1);
  });

  test('clear(): the next one begins anew', () => {
    const { reorderer, out, come } = openStream();
    come(0);
    come(2);
    reorderer.clear();
    come(9);
    expect(out).toEqual([0, 9]);
  });
});
