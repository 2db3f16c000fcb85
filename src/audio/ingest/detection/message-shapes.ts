import { inflateSync } from 'node:zlib';

/** Shapes of messages of other protocols, of which the first byte may also be that of an Opus packet; each is one bit. */
const AMR_NARROWBAND = 1 << 0;
const AMR_WIDEBAND = 1 << 1;
const SBC = 1 << 2;
const COUNTED = 1 << 3;
export const BRIEFLY_COUNTED = 1 << 4;
const COMPRESSED = 1 << 5;
export const OFFSET = 1 << 6;
const PROTOBUF = 1 << 7;
export const EQUAL_TAIL = 1 << 8;
export const AMR = AMR_NARROWBAND | AMR_WIDEBAND;
const ALL = (1 << 9) - 1;

/** Length up to which a message says nothing except in AMR: silence. */
const MAX_SILENT_BYTES = 3;
/** Minimum length of a message that begins with its length, and lengths of one that may be compressed. */
const LEAST_COUNTED_BYTES = 6;
const LEAST_COMPRESSED_BYTES = 8;
const MOST_COMPRESSED_BYTES = 2048;
const MOST_INFLATED_BYTES = 4096;
/** Minimum length of a message that begins with an offset (FlatBuffers). */
const LEAST_OFFSET_BYTES = 17;
/** Minimum length of a message whose last two bytes are compared. */
const LEAST_TAIL_BYTES = 8;

/** Returns the last two bytes of a message. */
export const tailOf = (message: Buffer): number => message.readUInt16BE(message.length - 2);

/** Returns the shapes of one message, as bits. */
export function shapesOf(message: Buffer): number {
  let shapes = 0;
  if (isAmr(message, AMR_NARROWBAND_BYTES)) shapes |= AMR_NARROWBAND;
  if (isAmr(message, AMR_WIDEBAND_BYTES)) shapes |= AMR_WIDEBAND;
  if (message.length <= MAX_SILENT_BYTES) return shapes | (ALL & ~AMR);
  if (isSbc(message)) shapes |= SBC;
  shapes |= countShapeOf(message);
  if (isCompressed(message)) shapes |= COMPRESSED;
  if (beginsWithOffset(message)) shapes |= OFFSET;
  if (isProtobuf(message)) shapes |= PROTOBUF;
  if (hasTellingTail(message)) shapes |= EQUAL_TAIL;
  return shapes;
}

/** Bytes of AMR frames with their head, by type (RFC 4867 §5.3); of the types from 14 on there is the head alone. */
const AMR_NARROWBAND_BYTES = [13, 14, 16, 18, 20, 21, 27, 32, 6];
const AMR_WIDEBAND_BYTES = [18, 24, 33, 37, 41, 47, 51, 59, 61, 6];
const FIRST_EMPTY_AMR_TYPE = 14;
/** Bits of the head of an AMR frame other than its type, and their value: the quality bit alone. */
const AMR_HEAD_MASK = 0x87;
const AMR_HEAD = 0x04;

/** True for whole frames of AMR, each behind its head. */
function isAmr(message: Buffer, frameBytes: readonly number[]): boolean {
  // Silence alone is sent in messages of one byte.
  if (message.length > 1 && message[0]! >> 3 >= FIRST_EMPTY_AMR_TYPE) return false;
  let at = 0;
  while (at < message.length) {
    const head = message[at]!;
    if ((head & AMR_HEAD_MASK) !== AMR_HEAD) return false;
    const type = head >> 3;
    const bytes = type >= FIRST_EMPTY_AMR_TYPE ? 1 : frameBytes[type];
    if (bytes === undefined) return false;
    at += bytes;
  }
  return at === message.length;
}

const SBC_SYNC = 0x9c;
const MSBC_SYNC = 0xad;
const MSBC_FRAME_BYTES = 57;
/** Length of the head H2 before a frame of mSBC (HFP 1.6 §5.7.2), and of the byte that pads it. */
const H2_BYTES = 2;

/** True for whole frames of SBC (A2DP 1.3 §12.9) or for a frame of mSBC (HFP 1.6 §5.7.4), perhaps behind its head. */
function isSbc(message: Buffer): boolean {
  const from = message[0] === 0x01 && (message[1]! & 0x0f) === 0x08 ? H2_BYTES : 0;
  if (message[from] === MSBC_SYNC) {
    const restBytes = message.length - from - MSBC_FRAME_BYTES;
    return (
      message[from + 1] === 0 && message[from + 2] === 0 && (restBytes === 0 || restBytes === 1)
    );
  }
  let at = from;
  while (at + 4 <= message.length && message[at] === SBC_SYNC) {
    at += sbcFrameBytes(message[at + 1]!, message[at + 2]!);
  }
  return at > from && at === message.length;
}

/** Returns the length of an SBC frame, by the second and third byte of its head. */
function sbcFrameBytes(head: number, bitpool: number): number {
  const subbands = (head & 1) === 0 ? 4 : 8;
  const blocks = 4 * (1 + ((head >> 4) & 3));
  // Mono, two channels, stereo, joint stereo.
  const mode = (head >> 2) & 3;
  const channels = mode === 0 ? 1 : 2;
  const joinedBits = mode === 3 ? subbands : 0;
  const sampleBits = joinedBits + blocks * bitpool * (mode === 1 ? 2 : 1);
  return 4 + (4 * subbands * channels) / 8 + Math.ceil(sampleBits / 8);
}

const CBOR_BYTES_8 = 0x58;
const CBOR_BYTES_16 = 0x59;
const MESSAGEPACK_BYTES_8 = 0xc4;
const MESSAGEPACK_BYTES_16 = 0xc5;

/** Returns the shape of a message that begins with its length: as a number of 16 or 32 bits, or as a byte string of CBOR or MessagePack. */
function countShapeOf(message: Buffer): number {
  const { length } = message;
  if (length < LEAST_COUNTED_BYTES) return 0;
  const [after16, after32] = [length - 2, length - 4];
  if (message.readUInt32BE(0) === after32 || message.readUInt32LE(0) === after32) return COUNTED;
  const type = message[0];
  const isString = type === CBOR_BYTES_16 || type === MESSAGEPACK_BYTES_16;
  if (isString && message.readUInt16BE(1) === length - 3) return COUNTED;
  const isBrief = type === CBOR_BYTES_8 || type === MESSAGEPACK_BYTES_8;
  if (isBrief && message[1] === after16) return BRIEFLY_COUNTED;
  const isNumber = message.readUInt16BE(0) === after16 || message.readUInt16LE(0) === after16;
  return isNumber ? BRIEFLY_COUNTED : 0;
}

const ZSTANDARD_HEAD = 0x28_b5_2f_fd;
const ZLIB_HEAD = 0x78;
/** Second bytes of zlib, one for each of four levels. */
const ZLIB_LEVELS: readonly number[] = [0x01, 0x5e, 0x9c, 0xda];

/** True for the beginning of Zstandard (RFC 8878 §3.1.1), or for whole zlib (RFC 1950 §2.2), which ends with a checksum. */
function isCompressed(message: Buffer): boolean {
  if (message.length < LEAST_COMPRESSED_BYTES) return false;
  if (message.readUInt32BE(0) === ZSTANDARD_HEAD) return true;
  if (message[0] !== ZLIB_HEAD || !ZLIB_LEVELS.includes(message[1]!)) return false;
  // RFC 1951 §3.2.3: one block, of one of three types.
  const isOneBlock = (message[2]! & 1) === 1 && (message[2]! & 6) !== 6;
  if (!isOneBlock || message.length > MOST_COMPRESSED_BYTES) return false;
  try {
    inflateSync(message, { maxOutputLength: MOST_INFLATED_BYTES });
    return true;
  } catch {
    return false;
  }
}

/** True for an offset of 32 bits below 256, as FlatBuffers begin. */
function beginsWithOffset(message: Buffer): boolean {
  const isShort = message.length < LEAST_OFFSET_BYTES;
  const offset = message[0]!;
  return !isShort && offset > 0 && offset % 4 === 0 && message.readUIntBE(1, 3) === 0;
}

/** True for last bytes that distinguish sealed frames: packets of code 3, and those of a constant bit rate, may end in zeros. */
const hasTellingTail = (message: Buffer): boolean =>
  message.length >= LEAST_TAIL_BYTES && (message[0]! & 3) !== 3 && tailOf(message) !== 0;

/** Maximum bytes of a varint. */
const MAX_VARINT_BYTES = 10;
const MAX_PROTOBUF_FIELD = 63;

/** True for a message of nothing but protobuf fields, in ascending order, one of which has half of the bytes or more. */
function isProtobuf(message: Buffer): boolean {
  const { length } = message;
  let at = 0;
  let longestBytes = 0;
  let fieldBefore = 1;
  while (at < length) {
    // Fields up to 63 are written as one or two bytes.
    const isLong = message[at]! >= 0x80;
    if (isLong && (at + 1 >= length || message[at + 1]! > 3)) return false;
    const tag = isLong ? (message[at]! & 0x7f) + 128 * message[at + 1]! : message[at]!;
    const field = tag >> 3;
    if (field < fieldBefore || field > MAX_PROTOBUF_FIELD) return false;
    fieldBefore = field;
    at += isLong ? 2 : 1;
    const type = tag & 7;
    if (type === 1) at += 8;
    else if (type === 5) at += 4;
    else if (type === 0) at = endOfVarint(message, at);
    else if (type === 2) {
      const end = endOfVarint(message, at);
      if (end === Infinity) return false;
      const bytes = varint(message, at, end);
      longestBytes = Math.max(longestBytes, bytes);
      at = end + bytes;
    } else return false;
  }
  return at === length && 2 * longestBytes >= length;
}

/** Returns the position after a varint; Infinity if it does not end. */
function endOfVarint(message: Buffer, from: number): number {
  const limit = Math.min(message.length, from + MAX_VARINT_BYTES);
  for (let at = from; at < limit; at += 1) if (message[at]! < 0x80) return at + 1;
  return Infinity;
}

function varint(message: Buffer, from: number, end: number): number {
  let value = 0;
  for (let at = end - 1; at >= from; at -= 1) {
    value = value * 128 + (message[at]! & 0x7f);
  }
  return value;
}
