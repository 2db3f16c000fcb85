import { describe, expect, test } from 'vitest';
import { RtpWatch } from '../../../src/bridge/rtp-watch.ts';
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
});

describe('a watch on the RTP of a browser', () => {
  test('tells once that it has stopped, and that it flows again', () => {
    const watch = new RtpWatch();
    const told = [
      watch.look(0, 0, true),
      watch.look(900, 0, true),
      watch.look(1000, 0, true),
      watch.look(5000, 0, true),
      watch.look(6000, 5990, true),
      watch.look(6900, 6000, true),
    ];
    expect(told).toEqual([undefined, undefined, 'stopped', undefined, 'flowing', undefined]);
  });

  test('waits a second after what is expected has begun, and tells nothing of who is muted', () => {
    const watch = new RtpWatch();
    expect(watch.look(0, undefined, false)).toBeUndefined();
    expect(watch.look(5000, undefined, true)).toBeUndefined();
    expect(watch.look(5900, undefined, true)).toBeUndefined();
    expect(watch.look(6000, undefined, true)).toBe('stopped');
    expect(watch.look(9000, undefined, false)).toBeUndefined();
    expect(watch.look(9100, undefined, true)).toBeUndefined();
    expect(watch.look(9200, 9190, true)).toBe('flowing');
    expect(watch.look(20_000, 9190, false)).toBeUndefined();
    expect(watch.look(20_500, 9190, true)).toBeUndefined();
    expect(watch.look(21_400, 9190, true)).toBeUndefined();
    expect(watch.look(21_500, 9190, true)).toBe('stopped');
  });
});
