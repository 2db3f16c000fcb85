import { describe, expect, test } from 'vitest';
import { RtpWatch } from '../../../src/bridge/rtp-watch.ts';

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

  test('tells nothing of packets that this process has not read, because it stood still', () => {
    const watch = new RtpWatch();
    const told = [watch.look(0, 0, true), watch.look(1000, 990, true), watch.look(4000, 990, true)];
    expect(told).toEqual([undefined, undefined, undefined]);
    expect(watch.look(5000, 990, true)).toBe('stopped');
  });

  test('tells the state once more to a client that came back, as soon as it is known', () => {
    const watch = new RtpWatch();
    watch.look(0, 0, true);
    watch.tellAgain();
    expect([watch.look(500, 490, true), watch.look(600, 590, true)]).toEqual([
      'flowing',
      undefined,
    ]);
    expect(watch.look(2000, 590, true)).toBe('stopped');
    watch.tellAgain();
    expect(watch.look(2100, 590, false)).toBeUndefined();
    expect(watch.look(2200, 590, true)).toBeUndefined();
    expect([watch.look(3200, 590, true), watch.look(3300, 590, true)]).toEqual([
      'stopped',
      undefined,
    ]);
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
