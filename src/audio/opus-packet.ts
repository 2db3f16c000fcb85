import { SAMPLES_PER_MS } from '../rtp/clock-rate.ts';

/** Properties of an Opus packet, without decoding it (RFC 6716 §3). Durations are in samples at 48 kHz. */

const MAX_PACKET_SAMPLES = 5760;
const MAX_FRAME_BYTES = 1275;
/** Maximum bytes of 20 ms, or of a shorter packet: 600 kbit/s; encoders produce at most 510. */
export const MAX_BYTES_PER_20_MS = 1500;
const SAMPLES_PER_20_MS = 960;
const FIRST_HYBRID_CONFIG = 12;
const FIRST_CELT_CONFIG = 16;
const SILK_FRAME_SAMPLES = [480, 960, 1920, 2880];
const HYBRID_FRAME_SAMPLES = [480, 960];
const CELT_FRAME_SAMPLES = [120, 240, 480, 960];

/** Returns the duration of one frame of a packet, by the configuration in its TOC byte (RFC 6716 §3.1, table 2). */
function frameSamples(toc: number): number {
  const config = toc >> 3;
  if (config < FIRST_HYBRID_CONFIG) return SILK_FRAME_SAMPLES[config & 3]!;
  if (config < FIRST_CELT_CONFIG) return HYBRID_FRAME_SAMPLES[config & 1]!;
  return CELT_FRAME_SAMPLES[config & 3]!;
}

/**
 * Returns the duration of a packet, checked against every rule of RFC 6716 §3.4.
 * @returns undefined if the bytes are not a well-formed Opus packet
 */
export function opusPacketSamples(packet: Uint8Array): number | undefined {
  const { length } = packet;
  if (length === 0) return undefined;
  const toc = packet[0]!;
  const samples = frameSamples(toc);
  switch (toc & 3) {
    case 0:
      return length - 1 <= MAX_FRAME_BYTES ? samples : undefined;
    case 1:
      return (length - 1) % 2 === 0 && (length - 1) / 2 <= MAX_FRAME_BYTES
        ? 2 * samples
        : undefined;
    case 2: {
      const first = readFrameLength(packet, 1);
      if (!first) return undefined;
      const second = length - first.next - first.bytes;
      return second >= 0 && second <= MAX_FRAME_BYTES ? 2 * samples : undefined;
    }
    default:
      return isArbitraryFramingValid(packet, samples) ? (packet[1]! & 0x3f) * samples : undefined;
  }
}

/** Reads a frame length of one or two bytes (RFC 6716 §3.2.1). */
function readFrameLength(
  packet: Uint8Array,
  at: number,
): { bytes: number; next: number } | undefined {
  const first = packet[at];
  if (first === undefined) return undefined;
  if (first < 252) return { bytes: first, next: at + 1 };
  const second = packet[at + 1];
  return second === undefined ? undefined : { bytes: first + 4 * second, next: at + 2 };
}

/** Reads the number of bytes of padding after the frames: each 255 stands for 254 and continues (RFC 6716 §3.2.5). */
function readPaddingLength(
  packet: Uint8Array,
  from: number,
): { bytes: number; next: number } | undefined {
  let bytes = 0;
  for (let at = from; ; at += 1) {
    const value = packet[at];
    if (value === undefined) return undefined;
    if (value < 255) return { bytes: bytes + value, next: at + 1 };
    bytes += 254;
  }
}

/** Checks a packet of code 3: a signalled number of frames, possibly padded (RFC 6716 §3.2.5). */
function isArbitraryFramingValid(packet: Uint8Array, samples: number): boolean {
  const head = packet[1];
  if (head === undefined) return false;
  const frameCount = head & 0x3f;
  if (frameCount === 0 || frameCount * samples > MAX_PACKET_SAMPLES) return false;
  let at = 2;
  let paddingBytes = 0;
  if (head & 0x40) {
    const padding = readPaddingLength(packet, at);
    if (!padding) return false;
    paddingBytes = padding.bytes;
    at = padding.next;
  }
  const isVariable = (head & 0x80) !== 0;
  const signalledLengths = isVariable ? frameCount - 1 : 0;
  for (let frame = 0; frame < signalledLengths; frame += 1) {
    const frameLength = readFrameLength(packet, at);
    if (!frameLength || frameLength.bytes > MAX_FRAME_BYTES) return false;
    at = frameLength.next;
    paddingBytes += frameLength.bytes;
  }
  const restBytes = packet.length - at - paddingBytes;
  if (restBytes < 0) return false;
  if (isVariable) return restBytes <= MAX_FRAME_BYTES;
  return restBytes % frameCount === 0 && restBytes / frameCount <= MAX_FRAME_BYTES;
}

/**
 * Bounds the length of a packet: removes padding (RFC 6716 §3.2.5), which may be of any length, from a packet that is longer than
 * encoders produce. All other packets stay unchanged.
 * @param packet well-formed
 * @param samples duration of the packet, samples at 48 kHz
 * @returns undefined if the packet is too long without padding
 */
export function boundedOpusPacket(packet: Buffer, samples: number): Buffer | undefined {
  const mostBytes = MAX_BYTES_PER_20_MS * Math.ceil(samples / SAMPLES_PER_20_MS);
  if (packet.length <= mostBytes) return packet;
  const bare = withoutPadding(packet);
  return bare.length <= mostBytes ? bare : undefined;
}

function withoutPadding(packet: Buffer): Buffer {
  const [toc = 0, head = 0] = packet;
  if ((toc & 3) !== 3 || (head & 0x40) === 0) return packet;
  const { bytes, next } = readPaddingLength(packet, 2) ?? { bytes: 0, next: 2 };
  return Buffer.concat([
    Buffer.of(toc, head & ~0x40),
    packet.subarray(next, packet.length - bytes),
  ]);
}

/** Second bytes of packets of code 3 that hold the same frames as those of codes 0, 1 and 2 (RFC 6716 §3.2.5). */
const FRAME_COUNT_BYTES = [1, 2, 0x82];

/** Returns the frames of a well-formed packet (RFC 6716 §3.2). */
function framesOf(packet: Buffer): Buffer[] {
  const bare = withoutPadding(packet);
  const code = bare[0]! & 3;
  const head = FRAME_COUNT_BYTES[code] ?? bare[1]!;
  const frameCount = head & 0x3f;
  let at = code === 3 ? 2 : 1;
  const equalBytes = (bare.length - at) / frameCount;
  const lengths = Array.from({ length: frameCount - 1 }, () => {
    if ((head & 0x80) === 0) return equalBytes;
    const { bytes, next } = readFrameLength(bare, at)!;
    at = next;
    return bytes;
  });
  const frames = lengths.map((bytes) => {
    at += bytes;
    return bare.subarray(at - bytes, at);
  });
  return [...frames, bare.subarray(at)];
}

/** True if two packets have the same configuration and number of channels, so that one packet may hold the frames of both. */
export const isSameConfiguration = (one: Buffer, other: Buffer): boolean =>
  one[0]! >> 2 === other[0]! >> 2;

/**
 * Returns one packet with the frames of several (RFC 6716 §3.2.5), which decodes to the same samples.
 * @param packets at least one, well-formed, of the same configuration and number of channels, of 120 ms together at most
 */
export function joinOpusPackets(packets: readonly Buffer[]): Buffer {
  const [first] = packets as [Buffer];
  if (packets.length === 1) return first;
  const frames = packets.flatMap(framesOf);
  const isVariable = frames.some(({ length }) => length !== frames[0]!.length);
  const lengths = isVariable
    ? frames.slice(0, -1).flatMap(({ length }) => lengthBytes(length))
    : [];
  const head = frames.length | (isVariable ? 0x80 : 0);
  return Buffer.concat([Buffer.of(first[0]! | 3, head, ...lengths), ...frames]);
}

/** Returns a frame length in one byte or two (RFC 6716 §3.2.1). */
const lengthBytes = (length: number): number[] =>
  length < 252 ? [length] : [252 + (length & 3), (length - 252) >> 2];

/**
 * True for a packet too short to carry sound: discontinuous transmission (RFC 6716 §3.1), or the three bytes in which
 * encoders represent digital silence.
 */
export function isOpusSilence(packet: Uint8Array): boolean {
  return packet.length <= 3;
}

/** True for a packet in the mode that encodes any sound (RFC 6716 §3.1); the other modes have a model of speech. */
export function isCelt(packet: Uint8Array): boolean {
  return packet[0]! >> 3 >= FIRST_CELT_CONFIG;
}

/**
 * True for a packet of one frame that carries a copy of the one before it (LBRR, which makes the in-band FEC): in its SILK
 * layer a bit for each 20 ms signals voice, and the bit after them a copy (RFC 6716 §4.2.3).
 */
export function carriesCopy(packet: Uint8Array): boolean {
  const [toc = 0, header = 0] = packet;
  if (isCelt(packet) || (toc & 3) !== 0) return false;
  const isStereo = (toc & 4) !== 0;
  const voiceBits = Math.max(1, frameSamples(toc) / 960);
  const copyOf = (channel: number) => (header >> (7 - voiceBits - channel * (voiceBits + 1))) & 1;
  return copyOf(0) === 1 || (isStereo && copyOf(1) === 1);
}

/**
 * Returns a substitute for a lost packet of the same stream: frames of no bytes, which a decoder conceals, of the same
 * number and duration as those of `before` (RFC 6716 §3.2.1). One byte, but for packets of more than two frames.
 */
export function emptyOpusPacket(before: Uint8Array): Buffer {
  const toc = before[0] ?? 0;
  const code = toc & 3;
  if (code === 3) return Buffer.of(toc, (before[1] ?? 1) & 0x3f);
  return Buffer.of(code === 0 ? toc : (toc & ~3) | 1);
}

/** Number of SILK frames in a frame of 10, 20, 40 and 60 ms, each with a flag for voice. */
const SILK_FRAMES = [1, 1, 2, 3];
/** Length up to which a packet contains no frame that was encoded. */
const MAX_EMPTY_BYTES = 3;
/** Minimum ratio of the time since the packet before to its duration from which another may be missing between them. */
const LEAST_GAP = 1.5;
/** No TOC byte. */
const NONE = -1;

/**
 * Finds packets that claim to contain a copy of a packet without voice. SILK begins with flags: one for voice in each of its frames, and one
 * for a copy of the packet before (RFC 6716 §4.2.3). Encoders copy only what they took for voice; in encrypted packets behind a readable TOC
 * byte these flags are random.
 */
export class UnvoicedCopies {
  #toc = NONE;
  #hadVoice = true;
  #atMs = 0;

  /** Processes one packet; returns true if it claims to contain a copy of the one before, which had no voice. */
  push(packet: Uint8Array, atMs: number): boolean {
    const toc = packet[0]!;
    const tocBefore = this.#toc;
    const config = toc >> 3;
    if (config >= FIRST_CELT_CONFIG || (toc & 3) !== 0 || packet.length <= MAX_EMPTY_BYTES) {
      this.#toc = NONE;
      return false;
    }
    const frames = config >= FIRST_HYBRID_CONFIG ? 1 : SILK_FRAMES[config & 3]!;
    const flags = packet[1]! >> (7 - frames);
    const isCopy = tocBefore === toc && !this.#hadVoice && (flags & 1) === 1;
    const sinceMs = atMs - this.#atMs;
    this.#toc = toc;
    this.#hadVoice = flags > 1;
    this.#atMs = atMs;
    return isCopy && sinceMs * SAMPLES_PER_MS <= LEAST_GAP * opusPacketSamples(packet)!;
  }
}
