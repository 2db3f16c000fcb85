import { areOddFloats } from './float-sizes.ts';

/** Minimum number of messages by whose heads alone a stream is recognized. */
const LEAST_HEADS = 3;
/** Number of bytes of text that samples do not resemble by chance. */
const LEAST_TEXT_BYTES = 64;
const OGG_PAGE = Buffer.from('OggS\0');

/**
 * Returns true if messages without repetitions are beyond doubt no samples, though some hypothesis of them may be as
 * short: text, heads of RTP, start codes of H.264, floats of another scale, or Ogg with content that is not decoded.
 * @param bytes content of all messages together
 */
export function isNoSound(messages: Buffer[], bytes: Buffer): boolean {
  if (isOfOddFloats(bytes)) return true;
  if (isText(bytes) || bytes.subarray(0, OGG_PAGE.length).equals(OGG_PAGE)) return true;
  return messages.length >= LEAST_HEADS && (isRtp(messages) || messages.every(isAnnexB));
}

/** Size from which floats with the values of 16-bit integers are loud. */
const LOUD_INTEGER = 64;

/** True for floats with the values of 16-bit integers. */
function isOfOddFloats(bytes: Buffer): boolean {
  const floats = bytes.length >> 2;
  return areOddFloats(floats, (i) => bytes.readFloatLE(4 * i), LOUD_INTEGER);
}

/** True for JSON, base64 and other readable text: samples do not stay within these values. */
function isText(bytes: Buffer): boolean {
  if (bytes.length < LEAST_TEXT_BYTES || new Set(bytes.subarray(0, LEAST_TEXT_BYTES)).size < 8) {
    return false;
  }
  return bytes.every((byte) => (byte >= 0x20 && byte < 0x7f) || (byte >= 0x09 && byte <= 0x0d));
}

const RTP_HEAD_BYTES = 12;
/** Bytes of framing before RTP: RFC 4571 §2, RTSP (RFC 2326 §10.12) and TURN (RFC 8656 §12.4); the last two of them are the length. */
const FRAMING_BYTES = [2, 4];
/** Number of packets up to the next one that comes, if some are lost. */
const MAX_SEQUENCE_STEP = 16;

/** True for RTP, perhaps behind a length. */
function isRtp(messages: Buffer[]): boolean {
  return (
    areRtp(messages) ||
    FRAMING_BYTES.some(
      (framingBytes) =>
        messages.every(
          (message) =>
            message.length > framingBytes + RTP_HEAD_BYTES &&
            message.readUInt16BE(framingBytes - 2) === message.length - framingBytes,
        ) && areRtp(messages.map((message) => message.subarray(framingBytes))),
    )
  );
}

/** True for version 2, one payload type, one source, and sequence numbers that count the messages (RFC 3550 §5.1). */
function areRtp(messages: Buffer[]): boolean {
  const [first] = messages as [Buffer, ...Buffer[]];
  return messages.every((message, i) => {
    if (message.length <= RTP_HEAD_BYTES || message[0]! >> 6 !== 2) return false;
    const before = messages[i - 1];
    const step = before ? (message.readUInt16BE(2) - before.readUInt16BE(2)) & 0xffff : 1;
    return (
      ((message[1]! ^ first[1]!) & 0x7f) === 0 &&
      message.readUInt32BE(8) === first.readUInt32BE(8) &&
      step >= 1 &&
      step <= MAX_SEQUENCE_STEP
    );
  });
}

/** True for a start code of H.264 or H.265 (annex B of both). */
function isAnnexB(message: Buffer): boolean {
  const zeros = message[2] === 0 ? 3 : 2;
  return message.length > zeros + 2 && message.readUIntBE(0, zeros + 1) === 1;
}
