import { Application, createDecoder, createEncoder } from 'libopus-wasm';
import { CHIRP_FRAMES, FRAME_SAMPLES, makeChirp, RATE_HZ } from './chirp.ts';

/** The frames of a speaker, each of 20 ms. */
export type Voice = { silence: Uint8Array; chirp: Uint8Array[] };

/** Longest packet of Opus, in samples (RFC 6716 §3.2.5). */
const LONGEST_PACKET_SAMPLES = 5760;
/** Number of frames of silence after which an encoder is in a steady state. */
const SETTLING_FRAMES = 10;

/** Returns the chirp as 16-bit PCM at 48 kHz, mono. */
export function pcmVoice(): Voice {
  const bytes = Buffer.alloc(2 * CHIRP_FRAMES * FRAME_SAMPLES);
  makeChirp().forEach((sample, i) => bytes.writeInt16LE(Math.round(sample * 32_767), 2 * i));
  const frameBytes = 2 * FRAME_SAMPLES;
  return {
    silence: Buffer.alloc(frameBytes),
    chirp: Array.from({ length: CHIRP_FRAMES }, (_, i) =>
      bytes.subarray(i * frameBytes, (i + 1) * frameBytes),
    ),
  };
}

/** Returns the chirp as Opus, as browsers send it. */
export async function opusVoice(): Promise<Voice> {
  using encoder = await createEncoder({
    sampleRate: RATE_HZ,
    frameSize: FRAME_SAMPLES,
    channels: 1,
    application: Application.Voip,
    bitrate: 40_000,
    fec: true,
  });
  const nothing = new Float32Array(FRAME_SAMPLES);
  const encode = (frame: Float32Array) => Uint8Array.from(encoder.encodeFloat(frame));
  let silence = encode(nothing);
  for (let i = 0; i < SETTLING_FRAMES; i += 1) silence = encode(nothing);
  const samples = makeChirp();
  const chirp = Array.from({ length: CHIRP_FRAMES }, (_, i) =>
    encode(samples.subarray(i * FRAME_SAMPLES, (i + 1) * FRAME_SAMPLES)),
  );
  return { silence, chirp };
}

/** Reads 16-bit PCM, mono. */
export function readPcm(bytes: Buffer): Float32Array {
  return Float32Array.from(
    { length: bytes.length >> 1 },
    (_, i) => bytes.readInt16LE(2 * i) / 32_768,
  );
}

/** Decodes packets of one stream of Opus, in their order; an empty frame stands for one that cannot be decoded. */
export async function decodeOpus(packets: Uint8Array[]): Promise<Float32Array[]> {
  using decoder = await createDecoder({
    sampleRate: RATE_HZ,
    channels: 1,
    maxFrameSize: LONGEST_PACKET_SAMPLES,
  });
  return packets.map((packet) => {
    try {
      return Float32Array.from(decoder.decodeFloat(packet));
    } catch {
      // Counted as lost, because nothing is heard in its place.
      return new Float32Array(0);
    }
  });
}
