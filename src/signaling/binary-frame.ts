/** FIN and the opcode of a binary message (RFC 6455 §5.2). */
const FINAL_BINARY = 0x82;
const MOST_IN_7_BITS = 125;
const LENGTH_IN_16_BITS = 126;
const MOST_IN_16_BITS = 0xffff;
const LENGTH_IN_64_BITS = 127;

let last: { payload: Buffer; frame: Buffer } | undefined;

/**
 * A binary message of a server as it goes over the wire: in one frame, not masked. All who hear the same mix are sent the
 * same bytes one after the other: these are put together once.
 * @param payload stays as it is
 */
export function binaryFrame(payload: Buffer): Buffer {
  if (payload !== last?.payload) last = { payload, frame: frameOf(payload) };
  return last.frame;
}

function frameOf(payload: Buffer): Buffer {
  return Buffer.concat([headOf(payload.length), payload]);
}

function headOf(bytes: number): Buffer {
  if (bytes <= MOST_IN_7_BITS) return Buffer.from([FINAL_BINARY, bytes]);
  const isMedium = bytes <= MOST_IN_16_BITS;
  const head = Buffer.alloc(isMedium ? 4 : 10);
  head[0] = FINAL_BINARY;
  head[1] = isMedium ? LENGTH_IN_16_BITS : LENGTH_IN_64_BITS;
  if (isMedium) head.writeUInt16BE(bytes, 2);
  else head.writeBigUInt64BE(BigInt(bytes), 2);
  return head;
}
