import { describe, expect, test } from 'vitest';
import { Pings } from '../../../src/session/pings.ts';

describe('Pings', () => {
  const open = () => new Pings({ unansweredMs: 600 });

  test('frame() is a ping of four bytes, and what follows it as it was', () => {
    const bytes = Buffer.from('sound');
    const frame = open().frame(0, bytes);
    expect(frame.subarray(0, 2)).toEqual(Buffer.from([0x89, 4]));
    expect(frame.subarray(6)).toEqual(bytes);
    expect(bytes).toEqual(Buffer.from('sound'));
  });

  test('answered() takes an answer for all pings before it', () => {
    const pings = open();
    const [first, second] = [pings.payload(0), pings.payload(300)];
    expect(pings.answered(second, 340)).toBe(false);
    expect([pings.rttMs, pings.checkAtMs]).toEqual([40, Infinity]);
    expect(pings.answered(first, 500)).toBe(false);
    expect(pings.rttMs).toBe(40);
  });

  test('answered() ignores pongs that answer nothing', () => {
    const pings = open();
    const payload = pings.payload(0);
    const ahead = Buffer.alloc(4);
    ahead.writeUInt32BE((payload.readUInt32BE() + 1) >>> 0);
    for (const other of [Buffer.alloc(0), Buffer.alloc(125), ahead, Buffer.alloc(4, 255)]) {
      pings.answered(other, 10);
    }
    expect(pings.rttMs).toBeUndefined();
  });

  test('checkStall() looks a second time, and not while the gateway does not read', () => {
    const pings = open();
    pings.answered(pings.payload(0), 10);
    pings.payload(1000);
    expect(pings.checkAtMs).toBe(1600);
    expect(pings.checkStall(1600, true)).toBe(false);
    expect(pings.checkStall(1700, false)).toBe(false);
    expect(pings.checkStall(1740, true)).toBe(false);
    expect(pings.checkStall(1780, true)).toBe(true);
    expect(pings.isStalled).toBe(true);
  });
});
