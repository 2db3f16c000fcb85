import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import type { Container } from '../../../../src/audio/format.ts';
import { ContainerIngest } from '../../../../src/audio/ingest/container-ingest.ts';
import type { ContainerReader, PacketSink } from '../../../../src/audio/ingest/container-reader.ts';
import { OggReader } from '../../../../src/audio/ingest/ogg-reader.ts';
import type { StreamOverdraft } from '../../../../src/audio/ingest/stream-budget.ts';
import { WebmReader } from '../../../../src/audio/ingest/webm-reader.ts';
import { oggOpus, opusHead, webmOpus } from '../../../support/containers.ts';

/** Cost of hostile containers: counted, not timed. */

const PACKETS = [40, 80, 255, 510, 2].map((bytes) => Buffer.alloc(bytes, 0xf8));
const READERS: [string, (onPacket: PacketSink) => ContainerReader, Buffer[]][] = [
  ['OggReader', (onPacket) => new OggReader(onPacket), oggOpus(PACKETS, 20)],
  ['WebmReader', (onPacket) => new WebmReader(onPacket), webmOpus(PACKETS, 20)],
];

describe.each(READERS)('%s.push()', (_, open, chunks) => {
  const whole = Buffer.concat(chunks);

  test('hands on the last packet with its last byte', () => {
    const packets: Buffer[] = [];
    const reader = open((packet) => packets.push(packet));
    reader.push(whole.subarray(0, -1));
    expect(packets.length).toBeLessThan(PACKETS.length);
    reader.push(whole.subarray(-1));
    expect(packets).toEqual(PACKETS);
  });

  test('hands on packets in memory of their own', () => {
    const packets: Buffer[] = [];
    const bytes = Buffer.from(whole);
    open((packet) => packets.push(packet)).push(bytes);
    bytes.fill(0);
    expect(packets).toEqual(PACKETS);
  });

  test('copies each byte three times at most, in one message or in messages of one byte', () => {
    const [atOnce, byteByByte] = [open(() => {}), open(() => {})];
    atOnce.push(whole);
    for (const byte of whole) byteByByte.push(Buffer.of(byte));
    expect(atOnce.work).toBeLessThan(3 * whole.length);
    expect(byteByByte.work).toBeLessThan(3 * whole.length);
  });
});

const byteByByte = (bytes: Buffer): Buffer[] => Array.from(bytes, (byte) => Buffer.of(byte));
/** The longest page: 255 full segments of a packet that goes on. */
const longPage = oggOpus([Buffer.alloc(255 * 255)], 20)[0]!;

test.each<[string, ContainerReader, Buffer]>([
  ['an Ogg page of 65 KB', new OggReader(() => {}), longPage],
  [
    'a WebM element of 240 KB that is passed over',
    new WebmReader(() => {}),
    Buffer.concat([...webmOpus([], 20), Buffer.from('ec1003a980', 'hex'), Buffer.alloc(240_000)]),
  ],
  [
    'a WebM block of 60 KB',
    new WebmReader(() => {}),
    Buffer.concat([
      ...webmOpus([], 20),
      Buffer.from('a31000ea60', 'hex'),
      Buffer.from('81000080', 'hex'),
      Buffer.alloc(59_996),
    ]),
  ],
])(
  'push() of %s in messages of one byte: each byte is copied twice at most',
  (_, reader, bytes) => {
    for (const byte of byteByByte(bytes)) reader.push(byte);
    expect(reader.work).toBeLessThan(3 * bytes.length + 1000);
  },
);

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function heapGrowthBytes(work: () => void): number {
  collectGarbage();
  const before = process.memoryUsage();
  work();
  collectGarbage();
  const after = process.memoryUsage();
  return after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
}

test('WebmReader.push() of clusters within clusters without end: no memory', () => {
  const reader = new WebmReader(() => {});
  for (const chunk of webmOpus([], 20)) reader.push(chunk);
  const cluster = Buffer.from('1f43b67501800000000000', 'hex').subarray(0, 4);
  const size = Buffer.from('0100800000000000', 'hex');
  const block = Buffer.from('a3868100008080ff', 'hex');
  const chunk = Buffer.concat([
    ...Array.from({ length: 1000 }, () => Buffer.concat([cluster, size])),
    block,
  ]);
  const growth = heapGrowthBytes(() => {
    for (let i = 0; i < 250; i += 1) reader.push(chunk);
  });
  // 3 MB have come; a tag for each cluster would be 39 MB.
  expect(growth).toBeLessThan(2_000_000);
});

test.each<[string, Buffer[], unknown[]]>([
  ['OpusTags of 2 MB', oggOpus([], 20, { tags: Buffer.alloc(2_000_000) }), []],
  [
    'a packet that never ends',
    oggOpus([Buffer.alloc(2_000_000)], 20),
    [new Error('A packet is too long.')],
  ],
])('OggReader.push() of %s: no memory', (_, chunks, expected) => {
  const reader = new OggReader(() => {});
  const faults: unknown[] = [];
  const growth = heapGrowthBytes(() => {
    try {
      for (const chunk of chunks) reader.push(chunk);
    } catch (fault) {
      faults.push(fault);
    }
  });
  expect(growth).toBeLessThan(1_000_000);
  expect(faults).toEqual(expected);
});

function openIngest(container: Container, onOver?: (overdraft: StreamOverdraft) => void) {
  const faults: unknown[] = [];
  const packets: Buffer[] = [];
  const ingest = new ContainerIngest(
    container,
    { push: (packet) => void packets.push(packet), skip: () => {}, close: () => {} },
    (fault) => faults.push(fault),
    onOver,
  );
  return { ingest, faults, packets };
}

describe('ContainerIngest.push() of recordings', () => {
  const start = Buffer.from('4f6767530002', 'hex');

  test('that begin with each message: told rate_limited once, and read no further', () => {
    const { ingest, faults } = openIngest('ogg_opus');
    for (let i = 0; i < 1000; i += 1) ingest.push(start, i / 1000);
    expect(faults).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
  });

  test('that begin four times a second: all of them', () => {
    const { ingest, faults, packets } = openIngest('ogg_opus');
    for (let i = 0; i < 100; i += 1) {
      for (const chunk of oggOpus(PACKETS, 20, { head: opusHead(2) })) ingest.push(chunk, i * 250);
    }
    expect(faults).toEqual([]);
    expect(packets).toHaveLength(100 * PACKETS.length);
  });
});

describe('ContainerIngest.push() of more packets than any sound needs', () => {
  /** The shortest packets of CELT, of 2.5 ms. */
  const pagesOf = (packets: number) =>
    oggOpus(
      Array.from({ length: packets }, () => Buffer.of(0xe0, 1)),
      2.5,
      { packetsPerPage: 250 },
    );
  const openWatched = () => {
    const overs: StreamOverdraft[] = [];
    return { ...openIngest('ogg_opus', (overdraft) => overs.push(overdraft)), overs };
  };

  test('8 s of the shortest that come at once after a stall: all are read, and nothing is told', () => {
    const { ingest, faults, packets, overs } = openWatched();
    for (const chunk of pagesOf(3200)) ingest.push(chunk, 0);
    for (const chunk of pagesOf(400)) ingest.push(chunk, 1000);
    expect([packets.length, overs, faults]).toEqual([3600, [], []]);
  });

  test('20,000 at once: no more than those of a second beyond the budget are read', () => {
    const { ingest, faults, packets, overs } = openWatched();
    for (const chunk of pagesOf(20_000)) ingest.push(chunk, 0);
    expect(packets.length).toBe(4601);
    expect(overs.filter(({ fault }) => fault)).toHaveLength(1);
    expect(faults).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
  });

  test('more each second: the client is told once, is not read meanwhile, and is refused if it goes on', () => {
    const { ingest, faults, packets, overs } = openWatched();
    const pages = pagesOf(40_000);
    // 1000 packets a second, as far as they are read.
    let nowMs = 0;
    let firstAtMs = Infinity;
    while (faults.length === 0 && nowMs < 60_000) {
      const before = overs.length;
      ingest.push(pages.shift()!, nowMs);
      const { waitMs } = overs.at(-1) ?? { waitMs: 0 };
      if (overs.length > before) firstAtMs = Math.min(firstAtMs, nowMs);
      nowMs += Math.max(250, overs.length > before ? waitMs : 0);
    }
    expect(overs.filter(({ fault }) => fault)).toMatchObject([{ fault: { code: 'rate_limited' } }]);
    expect(faults).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
    expect(nowMs - firstAtMs).toBeGreaterThanOrEqual(5000);
    expect(nowMs - firstAtMs).toBeLessThan(7000);
    expect(packets.length).toBeLessThan(4000 + 0.6 * nowMs + 600);
  });
});

test('ContainerIngest.push() of 20,000 packets in 64 KB: 4000 are read, and rate_limited is told', () => {
  const { ingest, faults, packets } = openIngest('ogg_opus');
  const tiny = Array.from({ length: 20_000 }, () => Buffer.of(0xf8, 1));
  for (const chunk of oggOpus(tiny, 20, { packetsPerPage: 255 })) ingest.push(chunk, 0);
  expect(packets).toHaveLength(4000);
  expect(faults).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
});
