import { Application, createDecoder, createEncoder, loadLibopus } from 'libopus-wasm';
import { FRAME_SAMPLES, SAMPLE_RATE_HZ } from './format.ts';

/** Opus as the gateway needs it: mono, 48 kHz, 20 ms out, any duration in. Another implementation need only be this. */

export type OpusEncoder = {
  /** @param frame 960 samples, -1…1 */
  encode(frame: Float32Array): Buffer;
  close(): void;
};

export type OpusDecoder = {
  /**
   * The samples of one packet, as many as it says.
   * @throws {Error} if the bytes do not decode
   */
  decode(packet: Uint8Array): Float32Array;
  /** What stands in for `samples` lost ones; a multiple of 120. */
  conceal(samples: number): Float32Array;
  close(): void;
};

export type OpusCodec = {
  createEncoder(): Promise<OpusEncoder>;
  createDecoder(): Promise<OpusDecoder>;
};

/**
 * Loads libopus (WebAssembly). Its low-delay mode is chosen: it is the cheapest, and a stream that starts in the middle
 * of a sentence, as a mix does, has no speech model to catch up with.
 */
export async function loadOpusCodec(settings: {
  bitrateBps: number;
  complexity: number;
}): Promise<OpusCodec> {
  await loadLibopus();
  return {
    async createEncoder() {
      const encoder = await createEncoder({
        sampleRate: SAMPLE_RATE_HZ,
        channels: 1,
        frameSize: FRAME_SAMPLES,
        application: Application.RestrictedLowDelay,
        bitrate: settings.bitrateBps,
        complexity: settings.complexity,
      });
      return {
        encode: (frame) => {
          const packet = encoder.encodeFloat(frame);
          return Buffer.from(packet.buffer, packet.byteOffset, packet.byteLength);
        },
        close: () => encoder.free(),
      };
    },
    async createDecoder() {
      const decoder = await createDecoder({ sampleRate: SAMPLE_RATE_HZ, channels: 1 });
      return {
        decode: (packet) => decoder.decodeFloat(packet),
        conceal: (samples) => decoder.decodePacketLossFloat(samples),
        close: () => decoder.free(),
      };
    },
  };
}
