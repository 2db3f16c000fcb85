import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { ContainerIngest } from '../../../../src/audio/ingest/container-ingest.ts';
import type { Container } from '../../../../src/audio/format.ts';
import { opusPacketSamples } from '../../../../src/audio/opus-packet.ts';
import { oggOpus, opusHead, webmOpus } from '../../../support/containers.ts';
import { decodeOpus, peakHz } from '../../../support/sound.ts';

/** Packets to tell apart: a TOC byte of 20 ms CELT, and a filling. */
const packetsOf = (...lengths: number[]) =>
  lengths.map((bytes, index) => Buffer.concat([Buffer.of(0xf8), Buffer.alloc(bytes - 1, index)]));
const SHORT = packetsOf(2, 40, 254, 255, 256, 3);
const LONG = packetsOf(600, 510, 1275, 40, 765);

const STREAMS: [string, Container, Buffer[], Buffer[]][] = [
  ['Ogg', 'ogg_opus', SHORT, oggOpus(SHORT, 20, { packetsPerPage: 2 })],
  ['Ogg, packets over several pages', 'ogg_opus', LONG, oggOpus(LONG, 20, { segmentsPerPage: 2 })],
  ['WebM of unknown size', 'webm_opus', SHORT, webmOpus(SHORT, 20)],
  ['WebM of known size', 'webm_opus', SHORT, webmOpus(SHORT, 20, { isLive: false })],
];

/** Returns the packets that come out while nothing more comes in. */
function demux(container: Container, chunks: Buffer[]): { packets: Buffer[]; faults: unknown[] } {
  const packets: Buffer[] = [];
  const faults: unknown[] = [];
  const ingest = new ContainerIngest(
    container,
    { push: (packet) => void packets.push(packet), skip: () => {}, close: () => {} },
    (fault) => faults.push(fault),
  );
  for (const chunk of chunks) ingest.push(chunk, 0);
  ingest.close();
  return { packets, faults };
}

function split(bytes: Buffer, chunkBytes: number): Buffer[] {
  const chunks = [];
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    chunks.push(bytes.subarray(at, at + chunkBytes));
  }
  return chunks;
}

const unsupported: unknown = expect.objectContaining({ code: 'unsupported_audio' });

describe.each(STREAMS)('%s', (_name, container, packets, chunks) => {
  const whole = Buffer.concat(chunks);
  const lastRecording = (got: Buffer[]) => {
    const start = got.findLastIndex((packet) => packet.equals(packets[0]!));
    return got.slice(start, start + packets.length);
  };

  test.each([1, 2, 7, 100, 10_000])('push() of messages of %i bytes: its packets', (chunkBytes) => {
    const { packets: got, faults } = demux(container, split(whole, chunkBytes));
    expect(faults).toEqual([]);
    expect(got).toEqual(packets);
  });

  test('push() of a second recording behind the first: the packets of both', () => {
    const { packets: got } = demux(container, [...chunks, ...chunks]);
    expect(got).toEqual([...packets, ...packets]);
  });

  test('push() of a second recording while the first breaks off in a packet: its packets', () => {
    const { packets: got, faults } = demux(container, [whole.subarray(0, -2), ...chunks]);
    expect(faults).toEqual([]);
    expect(lastRecording(got)).toEqual(packets);
  });

  test('push() of a stream without its beginning: refused', () => {
    const { packets: got, faults } = demux(container, [
      whole.subarray(20),
      Buffer.alloc(200_000, 1),
    ]);
    expect(got).toEqual([]);
    expect(faults).toEqual([unsupported]);
  });
});

/** Channel mapping family 1: four streams make six channels (RFC 7845 §5.1.1). */
function surround(): Buffer {
  const head = Buffer.concat([opusHead(6), Buffer.of(4, 2, 0, 4, 1, 2, 3, 5)]);
  head[18] = 1;
  return head;
}

test.each<[string, Container, Buffer[]]>([
  ['another codec in WebM', 'webm_opus', webmOpus(SHORT, 20, { codec: 'A_VORBIS' })],
  ['six channels in Ogg', 'ogg_opus', oggOpus(SHORT, 20, { head: surround() })],
  ['six channels in WebM', 'webm_opus', webmOpus(SHORT, 20, { head: surround() })],
  [
    'bytes of no container, without an end',
    'webm_opus',
    Array<Buffer>(2000).fill(Buffer.alloc(1000, 7)),
  ],
  [
    'Ogg that turns into something else',
    'ogg_opus',
    [...oggOpus(SHORT, 20), Buffer.alloc(2_000_000, 7)],
  ],
  [
    'a WebM element that would never end',
    'webm_opus',
    [...webmOpus([], 20), Buffer.from('ec0800000000000000', 'hex'), Buffer.alloc(2_000_000, 7)],
  ],
])('push() of %s: refused once', (_name, container, chunks) => {
  const { faults } = demux(container, chunks);
  expect(faults).toEqual([unsupported]);
});

test("push() of a recording by Chromium's MediaRecorder: the tone that it heard", async () => {
  const recording = readFileSync(new URL('../../../fixtures/media-recorder.webm', import.meta.url));
  const { packets } = demux('webm_opus', split(recording, 100));
  expect(packets.map((packet) => opusPacketSamples(packet))).toEqual(packets.map(() => 2880));
  const sound = await decodeOpus(packets);
  expect(sound.length).toBeGreaterThanOrEqual(45_000);
  expect(peakHz(sound.subarray(9600, 38_400))).toBe(440);
});
