import { beforeAll, describe, expect, test } from 'vitest';
import type { AudioFormat } from '../../src/audio/format.ts';
import { createIngest } from '../../src/audio/ingest.ts';
import { loadOpusCodec, type OpusCodec } from '../../src/audio/opus-codec.ts';
import { decodeOpus, opusTone, pcmTone, peakHz } from '../support/sound.ts';

let codec: OpusCodec;
beforeAll(async () => {
  codec = await loadOpusCodec({ bitrateBps: 48_000, complexity: 5 });
});

async function openIngest(format: AudioFormat) {
  const packets: { packet: Buffer; durationSamples: number; levelDbov: number }[] = [];
  const ingest = await createIngest(format, codec, (packet, durationSamples, levelDbov) =>
    packets.push({ packet, durationSamples, levelDbov }),
  );
  return { ingest, packets };
}

describe('Opus in', () => {
  const open = () => openIngest({ codec: 'opus' });

  test('push() hands packets on untouched, with their duration and about their level', async () => {
    const { ingest, packets } = await open();
    const tone = await opusTone(1000, 0.5, 400);
    for (const packet of tone) ingest.push(packet);
    expect(packets.map(({ packet }) => packet)).toEqual(tone);
    expect(packets.every(({ durationSamples }) => durationSamples === 960)).toBe(true);
    expect(packets.at(-1)?.levelDbov).toBeGreaterThanOrEqual(6);
    expect(packets.at(-1)?.levelDbov).toBeLessThanOrEqual(12);
    ingest.close();
  });

  test('push() says 127 for discontinuous transmission', async () => {
    const { ingest, packets } = await open();
    ingest.push(Buffer.from([0xf8, 0xff, 0xfe]));
    expect(packets[0]?.levelDbov).toBe(127);
    ingest.close();
  });

  test('push() refuses a stream that does not begin with Opus', async () => {
    const { ingest, packets } = await open();
    expect(() => ingest.push(Buffer.from([0xff, 0x00]))).toThrow(
      expect.objectContaining({ code: 'unsupported_audio' }),
    );
    expect(packets).toEqual([]);
    ingest.close();
  });

  test('push() drops single malformed packets of a good stream, and refuses the fifth in a row', async () => {
    const { ingest, packets } = await open();
    const [good] = await opusTone(1000, 0.5, 20);
    const malformed = Buffer.from([0xff, 0x00]);
    ingest.push(good!);
    for (let i = 0; i < 4; i += 1) ingest.push(malformed);
    ingest.push(good!);
    expect(packets).toHaveLength(2);
    for (let i = 0; i < 4; i += 1) ingest.push(malformed);
    expect(() => ingest.push(malformed)).toThrow('not Opus');
    ingest.close();
  });
});

describe('PCM in', () => {
  test.each([1, 3, 7, 960, 1919, 1921, 5000, 19_200])(
    'push() makes the same packets of messages of %i bytes',
    async (messageBytes) => {
      const { ingest, packets } = await openIngest({
        codec: 'pcm_s16le',
        rateHz: 48_000,
        channels: 1,
      });
      const bytes = Buffer.concat(pcmTone(1000, 0.5, 200));
      for (let at = 0; at < bytes.length; at += messageBytes) {
        ingest.push(bytes.subarray(at, at + messageBytes));
      }
      expect(packets).toHaveLength(10);
      expect(packets.every(({ levelDbov }) => levelDbov === 9)).toBe(true);
      expect(peakHz(await decodeOpus(packets.map(({ packet }) => packet)))).toBe(1000);
      ingest.close();
    },
  );
});
