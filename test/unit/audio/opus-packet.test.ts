import { describe, expect, test } from 'vitest';
import { Application, Signal } from 'libopus-wasm';
import {
  boundedOpusPacket,
  carriesCopy,
  isOpusSilence,
  joinOpusPackets,
  opusPacketSamples,
} from '../../../src/audio/opus-packet.ts';
import { joinOpusFrames, soundOf } from '../../support/corpus.ts';
import { seededRandom } from '../../support/random.ts';
import { decodeOpus, encodeOpus } from '../../support/sound.ts';

const toc = (config: number, code: number) => (config << 3) | code;
const bytes = (...values: number[]) => Uint8Array.from(values);
const withBody = (head: number[], bodyBytes: number) =>
  Uint8Array.from([...head, ...Array.from({ length: bodyBytes }, () => 0x55)]);

/** Returns a packet of code 3, padded by `paddingBytes`. */
function padded(head: number[], bodyBytes: number, paddingBytes: number): Buffer {
  const [first = 0, second = 0, ...lengths] = head;
  const full = Math.floor(paddingBytes / 254);
  const paddingLength = [...Array<number>(full).fill(255), paddingBytes % 254];
  const start = [first, second | 0x40, ...paddingLength, ...lengths];
  return Buffer.concat([withBody(start, bodyBytes), Buffer.alloc(paddingBytes)]);
}

describe('boundedOpusPacket()', () => {
  test.each<[string, Buffer]>([
    ['padded to a constant bit rate', padded([toc(31, 3), 1], 100, 1000)],
    ['of the longest frame', Buffer.from(withBody([toc(31, 0)], 1275))],
    ['of 120 ms at 510 kbit/s', Buffer.from(withBody([toc(31, 3), 6], 6 * 1275))],
  ])('of a packet %s: the same', (_, packet) => {
    expect(boundedOpusPacket(packet, opusPacketSamples(packet)!)).toBe(packet);
  });

  test.each<[string, Buffer, Uint8Array]>([
    ['one frame', padded([toc(31, 3), 1], 100, 65_000), withBody([toc(31, 3), 1], 100)],
    [
      'frames of different lengths',
      padded([toc(31, 3), 0x83, 2, 3], 9, 5000),
      withBody([toc(31, 3), 0x83, 2, 3], 9),
    ],
  ])('of %s with long padding: without it', (_, packet, bare) => {
    const samples = opusPacketSamples(packet)!;
    expect(boundedOpusPacket(packet, samples)).toEqual(Buffer.from(bare));
    expect(opusPacketSamples(bare)).toBe(samples);
  });

  test('of 8 frames of 1275 bytes in 20 ms: refused', () => {
    const packet = Buffer.from(withBody([toc(16, 3), 8], 8 * 1275));
    expect(boundedOpusPacket(packet, opusPacketSamples(packet)!)).toBeUndefined();
  });
});

describe('joinOpusPackets()', () => {
  const sound = () => soundOf('speech', 48_000, 1000, seededRandom(3));
  const inGroups = <Item>(items: Item[], size: number) =>
    Array.from({ length: Math.floor(items.length / size) }, (_, i) =>
      items.slice(i * size, (i + 1) * size),
    );

  test.each([
    ['of one frame', 2.5, {}, 1],
    ['of one frame, at a constant bit rate', 2.5, { vbr: false }, 1],
    ['of two frames', 2.5, {}, 2],
    ['of two frames of one length', 2.5, { vbr: false }, 2],
    ['of three frames', 2.5, {}, 3],
    ['of 5 ms and two channels', 5, { channels: 2 as const }, 1],
    ['of more than 252 bytes', 5, { bitrate: 510_000, channels: 2 as const }, 1],
  ])('packets %s decode to the same samples when joined', async (_, frameMs, options, frames) => {
    const single = await encodeOpus(sound(), frameMs, options);
    const groups = inGroups(inGroups(single, frames).map(joinOpusFrames), 3);
    const joined = groups.map(joinOpusPackets);
    for (const packet of joined) expect(opusPacketSamples(packet)).toBe(3 * frames * frameMs * 48);
    expect(await decodeOpus(joined)).toEqual(await decodeOpus(groups.flat()));
  });

  test('frames of packets of every code are joined', () => {
    const two = (code: number, ...body: number[]) => Buffer.of(toc(28, code), ...body);
    const joined = [two(0, 1), two(1, 2, 3), two(2, 2, 4, 4, 5), two(3, 0x82, 1, 6, 7, 7)];
    const head = [toc(28, 3), 0x87, 1, 1, 1, 2, 1, 1];
    expect(joinOpusPackets(joined)).toEqual(Buffer.of(...head, 1, 2, 3, 4, 4, 5, 6, 7, 7));
  });

  test('padding is removed, and a single packet stays as it is', () => {
    const packet = padded([toc(28, 3), 1], 30, 300);
    expect(joinOpusPackets([packet])).toBe(packet);
    expect(joinOpusPackets([packet, packet])).toEqual(Buffer.from(withBody([toc(28, 3), 2], 60)));
  });
});

describe('opusPacketSamples()', () => {
  /** RFC 6716 §3.1, table 2, at 48 kHz. */
  test.each([
    [0, 480],
    [1, 960],
    [2, 1920],
    [3, 2880],
    [11, 2880],
    [12, 480],
    [15, 960],
    [16, 120],
    [17, 240],
    [18, 480],
    [19, 960],
    [31, 960],
  ])('configuration %i is one frame of %i samples', (config, samples) => {
    expect(opusPacketSamples(withBody([toc(config, 0)], 20))).toBe(samples);
  });

  test.each([
    ['code 1: two equal frames', withBody([toc(31, 1)], 40), 1920],
    ['code 2: two frames, the first of 3 bytes', withBody([toc(31, 2), 3], 10), 1920],
    ['code 2: a length of two bytes (252 + 4)', withBody([toc(31, 2), 252, 1], 260), 1920],
    ['code 3: six equal frames of 20 ms', withBody([toc(31, 3), 6], 60), 5760],
    ['code 3: variable lengths', withBody([toc(31, 3), 0x83, 2, 3], 9), 2880],
    ['code 3: padded', withBody([toc(31, 3), 0x41, 4], 14), 960],
    ['code 3: padded by more than 254', withBody([toc(31, 3), 0x41, 255, 1], 255 + 10), 960],
    ['a TOC byte alone: an empty frame', bytes(toc(31, 0)), 960],
  ])('takes %s', (_name, packet, samples) => {
    expect(opusPacketSamples(packet)).toBe(samples);
  });

  test.each([
    ['no bytes', bytes()],
    ['code 0 over 1275 bytes', withBody([toc(31, 0)], 1276)],
    ['code 1 of uneven length', withBody([toc(31, 1)], 41)],
    ['code 2 whose first frame is longer than the packet', withBody([toc(31, 2), 200], 10)],
    ['code 2 without a length', bytes(toc(31, 2))],
    ['code 3 without a count', bytes(toc(31, 3))],
    ['code 3 of no frames', withBody([toc(31, 3), 0], 10)],
    ['code 3 of more than 120 ms', withBody([toc(31, 3), 7], 70)],
    ['code 3 that does not divide evenly', withBody([toc(31, 3), 3], 10)],
    ['code 3 padded beyond its end', withBody([toc(31, 3), 0x41, 100], 10)],
    ['code 3 with padding that never ends', bytes(toc(31, 3), 0x41, 255)],
    ['code 3 with variable lengths beyond its end', withBody([toc(31, 3), 0x82, 100], 10)],
  ])('refuses %s', (_name, packet) => {
    expect(opusPacketSamples(packet)).toBeUndefined();
  });
});

test('isOpusSilence() is true for packets too short to carry sound', () => {
  expect(isOpusSilence(bytes(toc(31, 0)))).toBe(true);
  expect(isOpusSilence(bytes(0xf8, 0xff, 0xfe))).toBe(true);
  expect(isOpusSilence(withBody([toc(31, 0)], 3))).toBe(false);
});

describe('carriesCopy()', () => {
  const encode = (fec: boolean, application: Application, packetMs: number, channels: 1 | 2) =>
    encodeOpus(soundOf('speech', 48_000, 3000, seededRandom(5)), packetMs, {
      application,
      signal: Signal.Voice,
      bitrate: 24_000 * channels,
      packetLossPercent: 20,
      fec,
      channels,
    });
  const shareOf = (packets: Buffer[]) => packets.filter(carriesCopy).length / packets.length;

  test.each<[number, 1 | 2]>([
    [10, 1],
    [20, 1],
    [40, 1],
    [60, 1],
    [20, 2],
  ])(
    'packets of %i ms, %i channels: true where the encoder puts copies in',
    async (ms, channels) => {
      expect(shareOf(await encode(true, Application.Voip, ms, channels))).toBeGreaterThan(0.6);
      expect(shareOf(await encode(false, Application.Voip, ms, channels))).toBe(0);
    },
  );

  test('of CELT alone: false, it has no copies', async () => {
    expect(shareOf(await encode(true, Application.RestrictedLowDelay, 20, 1))).toBe(0);
  });

  test('of a packet without sound: false', () => {
    expect(carriesCopy(bytes(toc(9, 0)))).toBe(false);
    expect(carriesCopy(bytes())).toBe(false);
  });
});
