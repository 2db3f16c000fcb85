/** Header of a FLAC frame (RFC 9639 §9.1). It does not contain the length of the frame. */
export type FlacHeader = {
  headerBytes: number;
  samples: number;
  /** Sample rate; undefined if it is in the header of the stream. */
  rateHz: number | undefined;
  channels: number;
};

const RATES_HZ = [
  undefined,
  88_200,
  176_400,
  192_000,
  8000,
  16_000,
  22_050,
  24_000,
  32_000,
  44_100,
  48_000,
  96_000,
] as const;
const FIRST_SAMPLES = [undefined, 192, 576, 1152, 2304, 4608] as const;
const SAMPLES_IN_8_BITS = 6;
const SAMPLES_IN_16_BITS = 7;
const RATE_IN_8_BITS = 12;
const RATE_IN_16_BITS = 13;
const RATE_IN_TENS = 14;
/** Last code of two channels: left and side, side and right, middle and side. */
const LAST_STEREO_CODE = 10;
const MAX_NUMBER_BYTES = 7;

const CRC_8 = Uint8Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x80 ? (crc << 1) ^ 0x07 : crc << 1;
  return crc;
});

/** @returns undefined if no frame begins at `at`, or its header is incomplete */
export function parseFlacHeader(bytes: Buffer, at: number): FlacHeader | undefined {
  if (bytes.length < at + 6 || bytes[at] !== 0xff || (bytes[at + 1]! & 0xfe) !== 0xf8)
    return undefined;
  const [sizeCode, rateCode] = [bytes[at + 2]! >> 4, bytes[at + 2]! & 15];
  const [channelCode, widthCode] = [bytes[at + 3]! >> 4, (bytes[at + 3]! >> 1) & 7];
  if (sizeCode === 0 || rateCode > RATE_IN_TENS || channelCode > LAST_STEREO_CODE) return undefined;
  if (widthCode === 3 || (bytes[at + 3]! & 1) !== 0) return undefined;
  const numberBytes = Math.max(1, Math.clz32(~bytes[at + 4]! << 24));
  if (numberBytes > MAX_NUMBER_BYTES) return undefined;
  const sizeAt = at + 4 + numberBytes;
  const sizeBytes = sizeCode === SAMPLES_IN_8_BITS ? 1 : sizeCode === SAMPLES_IN_16_BITS ? 2 : 0;
  const rateAt = sizeAt + sizeBytes;
  const rateBytes = rateCode === RATE_IN_8_BITS ? 1 : rateCode > RATE_IN_8_BITS ? 2 : 0;
  const checksumAt = rateAt + rateBytes;
  if (checksumAt >= bytes.length) return undefined;
  let crc = 0;
  for (let i = at; i < checksumAt; i += 1) crc = CRC_8[crc ^ bytes[i]!]!;
  if (crc !== bytes[checksumAt]) return undefined;
  return {
    headerBytes: checksumAt + 1 - at,
    samples:
      sizeBytes > 0
        ? bytes.readUIntBE(sizeAt, sizeBytes) + 1
        : (FIRST_SAMPLES[sizeCode] ?? 1 << sizeCode),
    rateHz:
      rateBytes > 0 ? readRate(bytes.readUIntBE(rateAt, rateBytes), rateCode) : RATES_HZ[rateCode],
    channels: channelCode < 8 ? channelCode + 1 : 2,
  };
}

const readRate = (value: number, code: number): number =>
  code === RATE_IN_8_BITS ? value * 1000 : code === RATE_IN_16_BITS ? value : value * 10;
