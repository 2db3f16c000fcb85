import { loadOpusCodec } from '../src/audio/opus-codec.ts';

export const RATE_HZ = 48_000;
export const FRAME_SAMPLES = 960;
const BITRATE_BPS = 32_000;
/** Number of packets, 60 s: speakers start at different positions, so that no packet is on its way twice at a time. */
const PACKETS = 3000;
const KEY_BYTES = 12;

/** Packets to send, their mean size, and the CPU time that encoding one took on this machine. */
export type Packets = { packets: Buffer[]; meanBytes: number; encodeUs: number };

/**
 * Returns the key that identifies a packet in a WebSocket message and in a datagram: its last bytes, which
 * the entropy coder fills. Undefined if the message is too short for such a packet.
 */
export function packetKey(bytes: Buffer): string | undefined {
  const { length } = bytes;
  return length < KEY_BYTES ? undefined : bytes.toString('latin1', length - KEY_BYTES);
}

/** Encodes a signal like speech, always loud enough to count as talk; all packets differ. */
export async function encodePackets(): Promise<Packets> {
  const frames = Array.from({ length: PACKETS }, (_, index) => speechFrame(index));
  const before = process.cpuUsage();
  const encoded = await encodeOpus(frames);
  const { user, system } = process.cpuUsage(before);
  const unique = new Map(encoded.map((packet) => [packetKey(packet), packet]));
  const packets = [...unique.values()];
  const bytes = packets.reduce((sum, { length }) => sum + length, 0);
  return { packets, meanBytes: bytes / packets.length, encodeUs: (user + system) / PACKETS };
}

/** Encodes frames of samples (-1…1) as one stream. */
export async function encodeOpus(frames: Float32Array[]): Promise<Buffer[]> {
  const codec = await loadOpusCodec({ bitrateBps: BITRATE_BPS, complexity: 5 });
  const encoder = await codec.createEncoder(RATE_HZ);
  const packets = frames.map((frame) => encoder.encode(frame));
  encoder.close();
  return packets;
}

/**
 * Returns a frame of a voice that glides between 100 and 200 Hz, with harmonics, syllables of a quarter
 * second, and breath noise.
 */
export function speechFrame(index: number): Float32Array {
  return Float32Array.from({ length: FRAME_SAMPLES }, (_, i) => {
    const seconds = (index * FRAME_SAMPLES + i) / RATE_HZ;
    const phase = 2 * Math.PI * (150 * seconds + 8 * Math.sin(2 * Math.PI * seconds));
    const syllable = 0.6 + 0.4 * Math.sin(2 * Math.PI * 4 * seconds);
    let voice = 0;
    for (let harmonic = 1; harmonic <= 12; harmonic += 1) {
      voice += Math.sin(phase * harmonic) / harmonic;
    }
    return syllable * (0.15 * voice + 0.02 * (2 * Math.random() - 1));
  });
}
