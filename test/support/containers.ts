import { crc32 } from 'node:zlib';

/** Opus packets in containers, as MediaRecorder hands them out: chunk by chunk, the first with the headers. */

const RATE_HZ = 48_000;
const SERIAL = 0x5eed_f00d;

/** The head of an Opus stream (RFC 7845 §5.1), for one channel unless it says otherwise. */
export function opusHead(channels = 1): Buffer {
  const head = Buffer.alloc(19);
  head.write('OpusHead');
  head[8] = 1;
  head[9] = channels;
  head.writeUInt16LE(312, 10);
  head.writeUInt32LE(RATE_HZ, 12);
  return head;
}

type OggOptions = {
  packetsPerPage?: number;
  /** At most 255; packets go on in the next page when a page has no more room. */
  segmentsPerPage?: number;
  serial?: number;
  head?: Buffer;
  tags?: Buffer;
};

/** Ogg Opus as Firefox writes it: a page each for head and tags, then pages of several packets of `packetMs` each. */
export function oggOpus(packets: Buffer[], packetMs: number, options: OggOptions = {}): Buffer[] {
  const { packetsPerPage = 5, segmentsPerPage = 255, serial = SERIAL } = options;
  const { head = opusHead(), tags = opusTags() } = options;
  const pages: Buffer[] = [];
  let samples = 0;
  const write = (inPage: Buffer[], flags = 0) => {
    let lacing = inPage.flatMap((packet) => lace(packet.length));
    let body = Buffer.concat(inPage);
    while (lacing.length > 0) {
      const segments = lacing.slice(0, segmentsPerPage);
      const bodyBytes = segments.reduce((sum, bytes) => sum + bytes, 0);
      const sequence = pages.length;
      pages.push(
        oggPage({ flags, samples, serial, sequence, segments, body: body.subarray(0, bodyBytes) }),
      );
      lacing = lacing.slice(segmentsPerPage);
      body = body.subarray(bodyBytes);
      flags = segments.at(-1) === 255 ? 1 : 0;
    }
  };
  write([head], 2);
  write([tags]);
  const headers = pages.length;
  for (let at = 0; at < packets.length; at += packetsPerPage) {
    const inPage = packets.slice(at, at + packetsPerPage);
    samples += (inPage.length * packetMs * RATE_HZ) / 1000;
    write(inPage);
  }
  return [Buffer.concat(pages.slice(0, headers + 1)), ...pages.slice(headers + 1)];
}

/** The comment header (RFC 7845 §5.2) with no comments. */
function opusTags(): Buffer {
  return Buffer.concat([
    Buffer.from('OpusTags'),
    Buffer.of(4, 0, 0, 0),
    Buffer.from('test'),
    Buffer.alloc(4),
  ]);
}

const lace = (bytes: number) => [...Array<number>(Math.floor(bytes / 255)).fill(255), bytes % 255];

type OggPage = {
  flags: number;
  samples: number;
  serial: number;
  sequence: number;
  segments: number[];
  body: Buffer;
};

/** One page, with its checksum (RFC 3533 §6). */
function oggPage({ flags, samples, serial, sequence, segments, body }: OggPage): Buffer {
  const head = Buffer.alloc(27);
  head.write('OggS');
  head[5] = flags;
  head.writeBigInt64LE(BigInt(samples), 6);
  head.writeUInt32LE(serial, 14);
  head.writeUInt32LE(sequence, 18);
  head[26] = segments.length;
  const page = Buffer.concat([head, Buffer.from(segments), body]);
  page.writeUInt32LE(oggChecksum(page), 22);
  return page;
}

/** Ogg's CRC is zlib's in a mirror, less the inversion before and after. */
function oggChecksum(page: Buffer): number {
  const mirrored = crc32(page.map(mirrorByte), 0xffff_ffff) ^ 0xffff_ffff;
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(mirrored);
  return Buffer.from(bytes.map(mirrorByte)).readUInt32BE();
}

function mirrorByte(byte: number): number {
  let mirrored = 0;
  for (let bit = 0; bit < 8; bit += 1) mirrored |= ((byte >> bit) & 1) << (7 - bit);
  return mirrored;
}

type WebmOptions = {
  packetsPerCluster?: number;
  /** As Chromium writes: segment and clusters of unknown size, simple blocks. Else all is known, in block groups. */
  isLive?: boolean;
  codec?: string;
  head?: Buffer;
};

/** WebM Opus: EBML head, segment, track list, then a cluster to a chunk, of packets of `packetMs` each. */
export function webmOpus(packets: Buffer[], packetMs: number, options: WebmOptions = {}): Buffer[] {
  const { packetsPerCluster = 5, isLive = true, codec = 'A_OPUS', head = opusHead() } = options;
  const master = isLive ? unsizedElement : element;
  const clusters: Buffer[] = [];
  for (let at = 0; at < packets.length; at += packetsPerCluster) {
    const blocks = packets.slice(at, at + packetsPerCluster).map((packet, index) => {
      const block = opusBlock(packet, index * packetMs);
      return isLive
        ? element('a3', block)
        : element('a0', element('a1', block), element('9b', uint(packetMs)));
    });
    clusters.push(master('1f43b675', element('e7', uint(at * packetMs)), ...blocks));
  }
  const track = element(
    'ae',
    element('d7', uint(1)),
    element('73c5', uint(77)),
    element('83', uint(2)),
    element('86', Buffer.from(codec)),
    element('63a2', head),
    element('e1', element('9f', uint(1))),
  );
  const start = [
    element('1549a966', element('2ad7b1', uint(1_000_000)), element('4d80', Buffer.from('test'))),
    element('ec', Buffer.alloc(40)),
    element('1654ae6b', track),
  ];
  const [first = Buffer.alloc(0), ...rest] = clusters;
  if (!isLive) rest.push(element('1c53bb6b', Buffer.alloc(300, 0xa3)));
  const segment = master('18538067', ...start, first, ...rest);
  const restBytes = Buffer.concat(rest).length;
  const opening = segment.subarray(0, segment.length - restBytes);
  return [Buffer.concat([ebmlHead('webm'), opening]), ...rest];
}

/** A block without lacing of track 1 (RFC 9559 §10.1), `atMs` after its cluster. */
const opusBlock = (packet: Buffer, atMs: number) =>
  Buffer.concat([Buffer.of(0x81, atMs >> 8, atMs & 0xff, 0x80), packet]);

const ebmlHead = (docType: string) =>
  element('1a45dfa3', element('4286', uint(1)), element('4282', Buffer.from(docType)));

/** An EBML element (RFC 8794 §4, §5), its size in as few bytes as do. */
function element(id: string, ...content: Buffer[]): Buffer {
  const data = Buffer.concat(content);
  const sizeBytes = data.length < 0x7f ? 1 : data.length < 0x3fff ? 2 : 4;
  const size = Buffer.alloc(sizeBytes);
  size.writeUIntBE(data.length, 0, sizeBytes);
  size[0]! |= 0x80 >> (sizeBytes - 1);
  return Buffer.concat([Buffer.from(id, 'hex'), size, data]);
}

/** An element that says that it does not know how long it is. */
const unsizedElement = (id: string, ...content: Buffer[]) =>
  Buffer.concat([Buffer.from(`${id}01ffffffffffffff`, 'hex'), ...content]);

function uint(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
