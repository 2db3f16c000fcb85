import { Application, type EncoderOptions } from 'libopus-wasm';
import { beforeAll, describe, expect, test } from 'vitest';
import { formatAudioFormat } from '../../../../../src/audio/format.ts';
import { FormatDetector } from '../../../../../src/audio/ingest/detection/detector.ts';
import { OpusGuard } from '../../../../../src/audio/ingest/detection/opus-guard.ts';
import { UnvoicedCopies } from '../../../../../src/audio/opus-packet.ts';
import { CONTENTS, soundOf } from '../../../../support/corpus.ts';
import { seededRandom } from '../../../../support/random.ts';
import { encodeOpus } from '../../../../support/sound.ts';

const COPYING: EncoderOptions = {
  application: Application.Voip,
  fec: true,
  packetLossPercent: 30,
  complexity: 5,
};
const ENCODERS: [string, number, EncoderOptions][] = [
  ['SILK', 20, { ...COPYING, bitrate: 16_000 }],
  ['SILK, 10 ms', 10, { ...COPYING, bitrate: 20_000 }],
  ['SILK, 60 ms', 60, { ...COPYING, bitrate: 16_000 }],
  ['hybrid', 20, { ...COPYING, bitrate: 32_000 }],
  ['hybrid, two channels, DTX', 20, { ...COPYING, bitrate: 48_000, channels: 2, dtx: true }],
];

/** Bytes behind the TOC byte replaced at random, as if they were encrypted. */
function seal(packets: readonly Buffer[], seed: number): Buffer[] {
  const random = seededRandom(seed);
  return packets.map((packet) =>
    Buffer.from(packet.map((byte, i) => (i === 0 ? byte : Math.floor(random() * 256)))),
  );
}

/** Returns the first verdict on packets of 20 ms. */
function verdictOn(packets: readonly Buffer[]): string | undefined {
  const detector = new FormatDetector();
  for (const [i, packet] of packets.entries()) {
    const detection = detector.push(packet, 1000 + i * 20);
    if (detection) return formatAudioFormat(detection.format);
  }
  return undefined;
}

describe.each(ENCODERS)('UnvoicedCopies in %s', (_, packetMs, options) => {
  test.each(CONTENTS)('%s: none', async (content) => {
    const sound = soundOf(content, 48_000, 1500, seededRandom(1));
    const packets = await encodeOpus(sound, packetMs, options);
    expect(packets.some((packet) => packet[0]! < 128)).toBe(true);
    const copies = new UnvoicedCopies();
    expect(packets.filter((packet, i) => copies.push(packet, i * packetMs))).toEqual([]);
  });
});

describe('SILK that is encrypted behind its first byte', () => {
  const streams = new Map<string, Buffer[]>();
  beforeAll(async () => {
    for (const [name, bitrate] of [
      ['SILK', 16_000],
      ['hybrid', 32_000],
    ] as const) {
      const sound = soundOf('speech', 48_000, 3000, seededRandom(2));
      streams.set(name, await encodeOpus(sound, 20, { ...COPYING, fec: false, bitrate }));
    }
  });

  test.each(['SILK', 'hybrid'])('FormatDetector.push() of %s: mostly unknown', (name) => {
    const seeds = Array.from({ length: 20 }, (_, i) => i);
    const told = seeds.map((seed) => verdictOn(seal(streams.get(name)!, seed)));
    expect(told.filter((format) => format === 'opaque').length).toBeGreaterThanOrEqual(10);
  });

  test.each(['SILK', 'hybrid'])('OpusGuard.look() at %s: wrong within two seconds', (name) => {
    for (let seed = 0; seed < 20; seed += 1) {
      const guard = new OpusGuard();
      const looks = seal(streams.get(name)!, seed).map((packet, i) =>
        guard.look(packet, 0, i * 20),
      );
      expect(looks.indexOf('wrong')).toBeGreaterThan(0);
      expect(looks.indexOf('wrong')).toBeLessThan(100);
    }
  });
});

test('FormatDetector.push() of one impossible packet again and again: unknown, not slow samples', () => {
  // 40 ms of SILK without voice in either of its frames, and with a copy.
  const packet = Buffer.from('342eb355b365cabc3f06', 'hex');
  const detector = new FormatDetector();
  const told = Array.from({ length: 60 }, (_, i) => detector.push(packet, i * 12));
  expect(told.find((detection) => detection !== undefined)).toEqual({
    format: { codec: 'opaque' },
    confidence: expect.closeTo(1),
  });
});

test('UnvoicedCopies.push() after a gap, in which a packet may be missing: no evidence', () => {
  // 20 ms of SILK; the first bit means voice, the second one a copy.
  const [withoutVoice, withCopy] = [0b0000_0000, 0b0100_0000].map((flags) =>
    Buffer.of(0x48, flags, 1, 2, 3),
  );
  const after = (ms: number) => {
    const copies = new UnvoicedCopies();
    copies.push(withoutVoice!, 0);
    return copies.push(withCopy!, ms);
  };
  expect([20, 28, 40].map(after)).toEqual([true, true, false]);
});
