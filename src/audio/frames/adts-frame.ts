import type { FrameFormat, FrameHeader } from './frame-header.ts';

/** AAC in ADTS (ISO/IEC 13818-7, 6.2): a header of seven bytes before each frame, of nine with a checksum. */

/** Sample rates by their index in a header. */
export const ADTS_RATES_HZ = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000,
  7350,
] as const;
export const ADTS_HEAD_BYTES = 7;
const CHECKSUM_BYTES = 2;
/** Samples of each channel in a block; a frame has up to four blocks. */
const BLOCK_SAMPLES = 1024;

export const ADTS_FRAMES: FrameFormat = { headerBytes: ADTS_HEAD_BYTES, parse: parseAdtsHeader };

function parseAdtsHeader(bytes: Buffer, at: number): FrameHeader | undefined {
  const [first, second, third, fourth] = [
    bytes[at]!,
    bytes[at + 1]!,
    bytes[at + 2]!,
    bytes[at + 3]!,
  ];
  if (first !== 0xff || (second & 0xf6) !== 0xf0) return undefined;
  const rateHz = ADTS_RATES_HZ[(third >> 2) & 15];
  const length = ((fourth & 3) << 11) | (bytes[at + 4]! << 3) | (bytes[at + 5]! >> 5);
  const headerBytes = ADTS_HEAD_BYTES + (second & 1 ? 0 : CHECKSUM_BYTES);
  if (rateHz === undefined || length <= headerBytes) return undefined;
  return {
    bytes: length,
    samples: BLOCK_SAMPLES * ((bytes[at + 6]! & 3) + 1),
    rateHz,
    channels: ((third & 1) << 2) | (fourth >> 6),
    streamKey: (second << 16) | ((third & 0xfd) << 8) | (fourth & 0xc0),
  };
}

/** Returns the header of a frame of low complexity, without a checksum. */
export function adtsHead(rateIndex: number, channels: number, bytes: number): Buffer {
  const length = ADTS_HEAD_BYTES + bytes;
  return Buffer.of(
    0xff,
    0xf1,
    0x40 | (rateIndex << 2) | (channels >> 2),
    ((channels & 3) << 6) | (length >> 11),
    (length >> 3) & 0xff,
    ((length & 7) << 5) | 0x1f,
    0xfc,
  );
}
