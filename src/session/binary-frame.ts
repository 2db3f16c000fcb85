/** FIN and the opcode of a binary message (RFC 6455 §5.2). */
const FINAL_BINARY = 0x82;
const MOST_IN_7_BITS = 125;
const LENGTH_IN_16_BITS = 126;
const MOST_IN_16_BITS = 0xffff;
const LENGTH_IN_64_BITS = 127;

let last: { payload: Buffer; frame: Buffer } | undefined;

/**
 * A binary message of a server as it goes over the wire: in one frame, not masked. Listeners of the same mix
 * are sent the same bytes one after the other, so the frame is built once.
 * @param payload stays as it is
 */
export function binaryFrame(payload: Buffer): Buffer {
  if (payload !== last?.payload) last = { payload, frame: frameOf(payload) };
  return last.frame;
}

const kept = new WeakMap<Buffer, Buffer>();

/** Returns the frame of a message that is sent to many clients at different times: built once, and kept for as long as the message. */
export function keptBinaryFrame(message: Buffer): Buffer {
  if (message === last?.payload) return last.frame;
  let frame = kept.get(message);
  if (!frame) {
    frame = frameOf(message);
    kept.set(message, frame);
  }
  last = { payload: message, frame };
  return frame;
}

function frameOf(payload: Buffer): Buffer {
  const { length } = payload;
  const lengthBytes = length <= MOST_IN_7_BITS ? 0 : length <= MOST_IN_16_BITS ? 2 : 8;
  const frame = Buffer.allocUnsafe(2 + lengthBytes + length);
  frame[0] = FINAL_BINARY;
  if (lengthBytes === 0) {
    frame[1] = length;
  } else if (lengthBytes === 2) {
    frame[1] = LENGTH_IN_16_BITS;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = LENGTH_IN_64_BITS;
    frame.writeBigUInt64BE(BigInt(length), 2);
  }
  frame.set(payload, 2 + lengthBytes);
  return frame;
}
