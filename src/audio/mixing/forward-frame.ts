const VERSION = 1;
export const FORWARD_HEAD_BYTES = 4;

/**
 * Returns a frame for a listener that receives each speaker separately: a header of version, flags (none
 * yet), and the speaker number, 16 bits, big-endian, then an Opus packet (docs/protocol.md, "Delivery").
 */
export function forwardFrame(speakerNumber: number, packet: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(FORWARD_HEAD_BYTES + packet.length);
  frame[0] = VERSION;
  frame[1] = 0;
  frame.writeUInt16BE(speakerNumber, 2);
  frame.set(packet, FORWARD_HEAD_BYTES);
  return frame;
}
