import { expect, test } from 'vitest';
import { LongPackets } from '../../../../src/audio/mixing/long-packets.ts';

const TICK = 960;

test('a speaker is one of long packets from the first on, and no longer after a second of short ones', () => {
  const packets = new LongPackets();
  expect([packets.note(TICK, false), packets.isLong]).toEqual([false, false]);
  expect([packets.note(3 * TICK, false), packets.isLong]).toEqual([true, true]);
  for (let packet = 0; packet < 49; packet += 1) expect(packets.note(TICK, false)).toBe(false);
  expect([packets.note(3 * TICK, false), packets.isLong]).toEqual([false, true]);
  for (let packet = 0; packet < 49; packet += 1) packets.note(TICK, false);
  expect(packets.isLong).toBe(true);
  packets.note(TICK, false);
  expect(packets.isLong).toBe(false);
  expect(packets.note(3 * TICK, false)).toBe(true);
});

test('while it is mixed it stays one of long packets', () => {
  const packets = new LongPackets();
  packets.note(3 * TICK, true);
  for (let packet = 0; packet < 100; packet += 1) packets.note(TICK, true);
  expect(packets.isLong).toBe(true);
  packets.note(TICK, false);
  expect(packets.isLong).toBe(false);
});
