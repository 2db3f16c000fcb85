/** FIN and the opcode of a binary message (RFC 6455 §5.2). */
const FINAL_BINARY = 0x82;
const MOST_IN_7_BITS = 125;
const LENGTH_IN_16_BITS = 126;

let last: { payload: Buffer; frame: Buffer } | undefined;

/**
 * A binary message of a server as it goes over the wire: in one frame, not masked. All who hear the same mix are sent the
 * same bytes one after the other: these are put together once.
 * @param payload at most 65 535 bytes, which stay as they are
 */
export function binaryFrame(payload: Buffer): Buffer {
  if (payload !== last?.payload) last = { payload, frame: frameOf(payload) };
  return last.frame;
}

function frameOf(payload: Buffer): Buffer {
  const isShort = payload.length <= MOST_IN_7_BITS;
  const headBytes = isShort ? 2 : 4;
  const frame = Buffer.allocUnsafe(headBytes + payload.length);
  frame[0] = FINAL_BINARY;
  frame[1] = isShort ? payload.length : LENGTH_IN_16_BITS;
  if (!isShort) frame.writeUInt16BE(payload.length, 2);
  frame.set(payload, headBytes);
  return frame;
}
