import { describe, expect, test } from 'vitest';
import { isNoSound } from '../../../../../src/audio/ingest/detection/no-sound.ts';
import { type Random, seededRandom } from '../../../../support/random.ts';

const randomBytes = (length: number, random: Random) =>
  Buffer.from(Uint8Array.from({ length }, () => Math.floor(random() * 256)));

/** RTP packets with random payload. */
function rtp(sequence: readonly number[]): Buffer[] {
  const random = seededRandom(1);
  return sequence.map((number) => {
    const packet = Buffer.concat([Buffer.alloc(12), randomBytes(80, random)]);
    packet.writeUInt16BE(0x80_6f);
    packet.writeUInt16BE(number & 0xffff, 2);
    packet.writeUInt32BE(number * 960, 4);
    packet.writeUInt32BE(4711, 8);
    return packet;
  });
}

const framed = (head: readonly number[]) => (packet: Buffer) =>
  Buffer.concat([Buffer.from(head), Buffer.of(packet.length >> 8, packet.length & 0xff), packet]);

const isNoneOf = (messages: Buffer[]) => isNoSound(messages, Buffer.concat(messages));
const COUNTED = [1, 2, 3, 4, 5];

describe('isNoSound() of RTP', () => {
  test.each([
    ['as it is', (packet: Buffer) => packet],
    ['behind a length', framed([])],
    ['in RTSP', framed([0x24, 0])],
    ['in a channel of TURN', framed([0x40, 0])],
  ])('%s: true', (_, frame) => {
    expect(isNoneOf(rtp(COUNTED).map(frame))).toBe(true);
  });

  test('of which some packets are lost: true', () => {
    expect(isNoneOf(rtp([65_534, 65_535, 65_538, 65_539, 65_550]))).toBe(true);
  });

  test.each([
    ['that do not count', [7, 7, 7]],
    ['that go back', [9, 8, 7]],
    ['that count too fast', [0, 100, 200]],
  ])('numbers %s: false', (_, sequence) => {
    expect(isNoneOf(rtp(sequence))).toBe(false);
  });

  test('behind a length that is another: false', () => {
    expect(isNoneOf(rtp(COUNTED).map((packet) => Buffer.concat([Buffer.of(0, 7), packet])))).toBe(
      false,
    );
  });
});
