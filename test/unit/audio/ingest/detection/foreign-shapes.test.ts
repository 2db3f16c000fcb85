import { deflateSync, zstdCompressSync } from 'node:zlib';
import { Application, type EncoderOptions } from 'libopus-wasm';
import { beforeAll, describe, expect, test } from 'vitest';
import { formatAudioFormat } from '../../../../../src/audio/format.ts';
import { FormatDetector } from '../../../../../src/audio/ingest/detection/detector.ts';
import { ForeignShapes } from '../../../../../src/audio/ingest/detection/foreign-shapes.ts';
import { OpusGuard } from '../../../../../src/audio/ingest/detection/opus-guard.ts';
import { opusPacketSamples } from '../../../../../src/audio/opus-packet.ts';
import { CONTENTS, soundOf } from '../../../../support/corpus.ts';
import { type Random, seededRandom } from '../../../../support/random.ts';
import { encodeOpus } from '../../../../support/sound.ts';

const PACKET_MS = 20;

const ENCODERS: [string, EncoderOptions][] = [
  ['SILK', { application: Application.Voip, bitrate: 16_000 }],
  ['hybrid', { application: Application.Voip, bitrate: 32_000 }],
  ['CELT', { application: Application.RestrictedLowDelay, bitrate: 64_000 }],
  ['CELT at a constant rate', { application: Application.Audio, bitrate: 48_000, vbr: false }],
  [
    'copies and DTX',
    { application: Application.Voip, bitrate: 24_000, fec: true, packetLossPercent: 10, dtx: true },
  ],
];

let packets: Buffer[];
beforeAll(async () => {
  packets = await encodeOpus(soundOf('speech', 48_000, 2000, seededRandom(1)), PACKET_MS, {
    application: Application.Voip,
    bitrate: 24_000,
  });
});

const randomBytes = (length: number, random: Random) =>
  Buffer.from(Uint8Array.from({ length }, () => Math.floor(random() * 256)));

const behind = (head: readonly number[], packet: Buffer) =>
  Buffer.concat([Buffer.from(head), packet]);
/** A number of seven bits in a byte, the lowest first; all bytes but the last have their highest bit set. */
const varint = (value: number): number[] =>
  value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))];
const big16 = (value: number) => [value >> 8, value & 0xff];

const WRAPPED: [string, (packet: Buffer, index: number) => Buffer][] = [
  ['protobuf', (packet) => behind([0x12, ...varint(packet.length)], packet)],
  [
    'protobuf with a number before',
    (packet, i) => behind([0x08, ...varint(i + 1), 0x12, ...varint(packet.length)], packet),
  ],
  ['16 bits of length', (packet) => behind(big16(packet.length), packet)],
  ['32 bits of length', (packet) => behind([0, 0, ...big16(packet.length)], packet)],
  ['CBOR', (packet) => behind([0x58, packet.length], packet)],
  ['MessagePack', (packet) => behind([0xc5, ...big16(packet.length)], packet)],
  [
    'FlatBuffers',
    (packet) => behind([12, 0, 0, 0, 6, 0, 8, 0, 4, 0, 0, 0, packet.length, 0, 0, 0], packet),
  ],
  ['zlib', (packet) => deflateSync(packet)],
  ['Zstandard', (packet) => zstdCompressSync(packet)],
  ['equal last bytes', (packet) => Buffer.concat([packet, Buffer.from('deadbeef', 'hex')])],
];

/** Frames of another codec, each as long as its head says. */
const CODECS: [string, (random: Random) => Buffer][] = [
  [
    'AMR',
    (random) => {
      const [type, bytes] = random() < 0.5 ? [0, 13] : [7, 32];
      return behind([(type << 3) | 4], randomBytes(bytes - 1, random));
    },
  ],
  ['AMR-WB', (random) => behind([(8 << 3) | 4], randomBytes(60, random))],
  // 16 blocks of 8 subbands on one channel, 31 bits a block.
  ['SBC', (random) => behind([0x9c, 0x31, 31], randomBytes(4 + 1 + 62, random))],
  ['mSBC', (random) => behind([0x01, 0x08, 0xad, 0, 0], randomBytes(54, random))],
];

/** Returns the verdict on messages that come every 20 ms. */
function verdictOn(messages: readonly Buffer[]): string | undefined {
  const detector = new FormatDetector();
  for (const [i, message] of messages.entries()) {
    const detection = detector.push(message, 1000 + i * PACKET_MS);
    if (detection) return formatAudioFormat(detection.format);
  }
  return undefined;
}

describe('messages that begin like Opus', () => {
  test.each(WRAPPED)('FormatDetector.push() of Opus in %s: unknown', (_, wrap) => {
    const wrapped = packets.map((packet, i) => wrap(packet, i));
    for (let from = 0; from + 30 < wrapped.length; from += 10) {
      expect(verdictOn(wrapped.slice(from, from + 30))).toBe('opaque');
    }
  });

  test.each(CODECS)('FormatDetector.push() of %s: unknown', (_, frame) => {
    const random = seededRandom(2);
    const frames = Array.from({ length: 30 }, () => frame(random));
    expect(frames.every((message) => opusPacketSamples(message) !== undefined)).toBe(true);
    expect(verdictOn(frames)).toBe('opaque');
  });

  test('FormatDetector.push() of silence in AMR, with comfort noise: unknown', () => {
    const random = seededRandom(5);
    const frames = Array.from({ length: 30 }, (_, i) =>
      i % 8 === 5 ? behind([0x44], randomBytes(5, random)) : Buffer.of(0x7c),
    );
    expect(verdictOn(frames)).toBe('opaque');
  });

  test.each(WRAPPED)('OpusGuard.look() after Opus at Opus in %s: wrong', (_, wrap) => {
    const guard = new OpusGuard();
    for (const [i, packet] of packets.entries()) guard.learn(packet, i * PACKET_MS);
    const looks = packets.map((packet, i) =>
      guard.look(wrap(packet, i), 0, (packets.length + i) * PACKET_MS),
    );
    expect(looks.indexOf('wrong')).toBeGreaterThanOrEqual(0);
    expect(looks.indexOf('wrong')).toBeLessThan(42);
  });
});

describe.each(ENCODERS)('ForeignShapes of Opus: %s', (_, options) => {
  test.each(CONTENTS)('%s: not foreign, not even three packets', async (content) => {
    const random = seededRandom(3);
    for (const packetMs of [10, 20]) {
      const real = await encodeOpus(soundOf(content, 48_000, 2000, random), packetMs, {
        complexity: 5,
        ...options,
      });
      const foreign = real.filter((_packet, from) => {
        const shapes = new ForeignShapes();
        const areAlike = real
          .slice(from, from + 3)
          .every((packet, i) => shapes.push(packet) || i === 0);
        return areAlike && (shapes.areForeign || shapes.mayBeForeign);
      });
      expect(foreign).toEqual([]);
    }
  });
});

test('ForeignShapes of a short length in front: by eight messages if their lengths are equal, by three if not', () => {
  const random = seededRandom(4);
  const counted = (length: number) => behind([0x58, length], randomBytes(length, random));
  const shapesOf = (lengths: readonly number[]) => {
    const shapes = new ForeignShapes();
    for (const length of lengths) shapes.push(counted(length));
    return shapes;
  };
  expect(shapesOf([60, 61, 60]).areForeign).toBe(true);
  const steady = shapesOf(Array<number>(7).fill(60));
  expect([steady.areForeign, steady.mayBeForeign]).toEqual([false, true]);
  expect(shapesOf(Array<number>(8).fill(60)).areForeign).toBe(true);
});
