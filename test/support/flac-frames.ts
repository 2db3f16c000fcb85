/** Frames of FLAC that are made up, with checksums that are right. */

/** The CRC-16 of a FLAC frame (RFC 9639 §9.3). */
export function flacChecksum(bytes: Buffer): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) {
      crc = (crc & 0x8000 ? (crc << 1) ^ 0x8005 : crc << 1) & 0xffff;
    }
  }
  return crc;
}

/** The head of a FLAC frame with its CRC-8. */
export function withChecksum(head: Buffer): Buffer {
  let crc = 0;
  for (const byte of head) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x80 ? (crc << 1) ^ 0x07 : crc << 1) & 0xff;
  }
  return Buffer.concat([head, Buffer.of(crc)]);
}

/** A FLAC frame of one channel of a constant value, 16 bits a sample; its head states the rate in Hz if that is below 65,536, or 96 kHz. */
export function flacFrame(number: number, samples: number, rateHz: number): Buffer {
  const rate = Buffer.alloc(rateHz === 96_000 ? 0 : 2);
  if (rate.length > 0) rate.writeUInt16BE(rateHz);
  const codes = 0x70 | (rate.length > 0 ? 13 : 11);
  const size = Buffer.of((samples - 1) >> 8, (samples - 1) & 0xff);
  const head = withChecksum(
    Buffer.concat([Buffer.of(0xff, 0xf9, codes, 0x08, number), size, rate]),
  );
  const bytes = Buffer.concat([head, Buffer.of(0, 3, 0xe8), Buffer.alloc(2)]);
  bytes.writeUInt16BE(flacChecksum(bytes.subarray(0, -2)), bytes.length - 2);
  return bytes;
}
