/** Reads and writes RTP packets: fixed header (RFC 3550 §5.1), one-byte header extensions (RFC 8285 §4.2), audio level (RFC 6464). */

const FIXED_HEADER_BYTES = 12;
const EXTENSION_BIT = 0x10;
const PADDING_BIT = 0x20;
const ONE_BYTE_PROFILE = 0xbede;

/** Audio level (RFC 6464: -dBov, 0 is the loudest) of digital silence, the quietest level. */
export const SILENCE_LEVEL = 127;

/** Fields of an RTP packet without its SSRC. */
export type MediaPacket = {
  sequenceNumber: number;
  timestamp: number;
  marker: boolean;
  /** RFC 6464: -dBov, 0 (loudest) … 127 (silence); undefined if the packet has no level. */
  audioLevel: number | undefined;
  /** In a packet that was read, a view of the datagram, not a copy. */
  payload: Buffer;
};

export type RtpPacket = MediaPacket & { ssrc: number; payloadType: number };

/** Identification of a stream's packets. */
export type StreamParameters = { ssrc: number; payloadType: number; levelExtensionId: number };

/** True for RTCP that shares the port with RTP (RFC 5761 §4: packet types 192…223). */
export function isRtcp(datagram: Buffer): boolean {
  const packetType = datagram[1] ?? 0;
  return packetType >= 192 && packetType <= 223;
}

/** Returns the SSRC of a datagram of at least 12 bytes. */
export function readSsrc(datagram: Buffer): number {
  return datagram.readUInt32BE(8);
}

/**
 * Reads an RTP packet.
 * @param levelExtensionId id of the header extension with the audio level, as negotiated
 * @returns undefined if the datagram is not RTP version 2, or is shorter than its header requires
 */
export function parseRtpPacket(datagram: Buffer, levelExtensionId: number): RtpPacket | undefined {
  const { length } = datagram;
  if (length < FIXED_HEADER_BYTES) return undefined;
  const first = datagram[0]!;
  if (first >> 6 !== 2) return undefined;
  const second = datagram[1]!;
  let offset = FIXED_HEADER_BYTES + (first & 0x0f) * 4;
  let audioLevel: number | undefined;
  if (first & EXTENSION_BIT) {
    if (length < offset + 4) return undefined;
    const end = offset + 4 + datagram.readUInt16BE(offset + 2) * 4;
    if (length < end) return undefined;
    if (datagram.readUInt16BE(offset) === ONE_BYTE_PROFILE) {
      audioLevel = readLevel(datagram, offset + 4, end, levelExtensionId);
    }
    offset = end;
  }
  const end = first & PADDING_BIT ? length - datagram[length - 1]! : length;
  if (end < offset) return undefined;
  return {
    ssrc: datagram.readUInt32BE(8),
    sequenceNumber: datagram.readUInt16BE(2),
    timestamp: datagram.readUInt32BE(4),
    payloadType: second & 0x7f,
    marker: second >= 0x80,
    audioLevel,
    payload: datagram.subarray(offset, end),
  };
}

function readLevel(datagram: Buffer, from: number, end: number, id: number): number | undefined {
  for (let at = from; at < end;) {
    const head = datagram[at]!;
    if (head === 0) {
      at += 1;
      continue;
    }
    if (head >> 4 === 15) return undefined;
    if (head >> 4 === id && at + 1 < end) return datagram[at + 1]! & 0x7f;
    at += 2 + (head & 0x0f);
  }
  return undefined;
}

/**
 * Returns an RTP packet with the audio level as its only header extension. Each packet has a new buffer, because a datagram socket may
 * not have sent the last one yet.
 * @param packet `audioLevel` 0…127; the V bit of RFC 6464 is left 0 (no voice detector is claimed)
 */
export function writeRtpPacket(
  packet: MediaPacket & { audioLevel: number },
  { ssrc, payloadType, levelExtensionId }: StreamParameters,
): Buffer {
  const { payload } = packet;
  const datagram = Buffer.allocUnsafe(FIXED_HEADER_BYTES + 8 + payload.length);
  datagram[0] = 0x80 | EXTENSION_BIT;
  datagram[1] = packet.marker ? payloadType | 0x80 : payloadType;
  datagram.writeUInt16BE(packet.sequenceNumber, 2);
  datagram.writeUInt32BE(packet.timestamp, 4);
  datagram.writeUInt32BE(ssrc, 8);
  datagram.writeUInt32BE(0xbede0001, 12);
  datagram[16] = levelExtensionId << 4;
  datagram[17] = packet.audioLevel;
  datagram[18] = 0;
  datagram[19] = 0;
  datagram.set(payload, 20);
  return datagram;
}
