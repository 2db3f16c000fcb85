import { describe, expect, test } from 'vitest';
import type { MediaPacket } from '../../../src/rtp/packet.ts';
import { Packetizer } from '../../../src/rtp/packetizer.ts';

describe('Packetizer', () => {
  const payload = Buffer.from([1]);
  const read = ({ sequenceNumber, timestamp, marker }: MediaPacket) => ({
    sequenceNumber,
    timestamp,
    marker,
  });

  test('advances the sequence number by one and the timestamp by what each packet holds', () => {
    const packetizer = new Packetizer({ sequenceNumber: 10, timestamp: 1000 });
    expect(read(packetizer.packetize(payload, 960, 30, 0))).toEqual({
      sequenceNumber: 10,
      timestamp: 1000,
      marker: true,
    });
    expect(read(packetizer.packetize(payload, 120, 30, 0))).toEqual({
      sequenceNumber: 11,
      timestamp: 1960,
      marker: false,
    });
    expect(read(packetizer.packetize(payload, 5760, 30, 0)).timestamp).toBe(2080);
  });

  test('jumps over a gap with the timestamp alone, and marks the first packet after it', () => {
    const packetizer = new Packetizer({ sequenceNumber: 10, timestamp: 0 });
    packetizer.packetize(payload, 960, 30, 0);
    expect(read(packetizer.packetize(payload, 960, 30, 48_000))).toEqual({
      sequenceNumber: 11,
      timestamp: 48_960,
      marker: true,
    });
    expect(read(packetizer.packetize(payload, 960, 30, 0)).marker).toBe(false);
  });

  test.each(Array.from({ length: 16 }, (_, i) => 65_520 + i))(
    'wraps both counters, starting at sequence number %i',
    (start) => {
      const packetizer = new Packetizer({
        sequenceNumber: start,
        timestamp: 2 ** 32 - 960 * 8,
      });
      for (let i = 0; i < 32; i += 1) {
        expect(read(packetizer.packetize(payload, 960, 30, 0))).toMatchObject({
          sequenceNumber: (start + i) % 65_536,
          timestamp: (2 ** 32 - 960 * 8 + 960 * i) % 2 ** 32,
        });
      }
    },
  );

  test('starts at a random sequence number that is neither 0 nor in the upper half', () => {
    for (let i = 0; i < 200; i += 1) {
      const { sequenceNumber } = read(new Packetizer().packetize(payload, 960, 30, 0));
      expect(sequenceNumber).toBeGreaterThan(0);
      expect(sequenceNumber).toBeLessThan(32_768);
    }
  });
});
