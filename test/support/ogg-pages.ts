/** Ogg (RFC 3533) as tests take it apart and put it together; checksums are left out, because nothing here reads them. */

const HEAD_BYTES = 27;
const FULL_SEGMENT_BYTES = 255;

/** Returns the packets of a file with one logical stream. */
export function packetsOf(file: Buffer): Buffer[] {
  const packets: Buffer[] = [];
  let parts: Buffer[] = [];
  for (let at = 0; at < file.length;) {
    const segments = file.subarray(at + HEAD_BYTES, at + HEAD_BYTES + file[at + HEAD_BYTES - 1]!);
    at += HEAD_BYTES + segments.length;
    for (const bytes of segments) {
      parts.push(file.subarray(at, at + bytes));
      at += bytes;
      if (bytes === FULL_SEGMENT_BYTES) continue;
      packets.push(Buffer.concat(parts));
      parts = [];
    }
  }
  return packets;
}

/** Returns a logical stream with each packet on pages of its own. */
export function pagesOf(packets: readonly Buffer[], serial = 1): Buffer[] {
  return packets.flatMap((packet, index) => {
    const segments = [
      ...Array<number>(Math.floor(packet.length / FULL_SEGMENT_BYTES)).fill(FULL_SEGMENT_BYTES),
      packet.length % FULL_SEGMENT_BYTES,
    ];
    const pages: Buffer[] = [];
    for (let from = 0; from < segments.length; from += FULL_SEGMENT_BYTES) {
      const table = segments.slice(from, from + FULL_SEGMENT_BYTES);
      const at = from * FULL_SEGMENT_BYTES;
      const bytes = table.reduce((sum, length) => sum + length, 0);
      const flags = (from > 0 ? 1 : 0) | (index === 0 ? 2 : 0);
      pages.push(pageOf(flags, serial, table, packet.subarray(at, at + bytes)));
    }
    return pages;
  });
}

/** Returns pages of a logical stream with a number of whole packets each, 255 segments at most. */
export function longPagesOf(packets: readonly Buffer[], packetsPerPage: number, serial = 1) {
  return Array.from({ length: Math.ceil(packets.length / packetsPerPage) }, (_, i) => {
    const inPage = packets.slice(i * packetsPerPage, (i + 1) * packetsPerPage);
    const table = inPage.flatMap(({ length }) => [
      ...Array<number>(Math.floor(length / FULL_SEGMENT_BYTES)).fill(FULL_SEGMENT_BYTES),
      length % FULL_SEGMENT_BYTES,
    ]);
    return pageOf(0, serial, table, Buffer.concat(inPage));
  });
}

function pageOf(flags: number, serial: number, table: readonly number[], body: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.write('OggS');
  head[5] = flags;
  head.writeUInt32LE(serial, 14);
  head[HEAD_BYTES - 1] = table.length;
  return Buffer.concat([head, Buffer.from(table), body]);
}
