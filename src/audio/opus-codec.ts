import { Application, createDecoder, createEncoder, EncoderCtl, loadLibopus } from 'libopus-wasm';
import { FRAME_MS, SAMPLE_RATE_HZ } from './format.ts';

/** Opus as the gateway needs it: mono, 20 ms out, any duration in. Another implementation need only be this. */

/** How far what comes out of the encoder lags behind what went in, at 48 kHz. */
export const ENCODER_DELAY_SAMPLES = 120;

/** The rates that Opus encodes as they are (RFC 6716 §2.1.3). */
export const OPUS_RATES_HZ = [8000, 12_000, 16_000, 24_000, 48_000] as const;
type OpusRateHz = (typeof OPUS_RATES_HZ)[number];

export type OpusEncoder = {
  /** @param frame 20 ms of samples at the encoder's rate, -1…1 */
  encode(frame: Float32Array): Buffer;
  /**
   * Takes in 20 ms that the listener has heard from elsewhere, so that the next packet follows on without a click; that
   * packet does not lean on what the listener's decoder remembers.
   */
  prime(frame: Float32Array): void;
  close(): void;
};

export type OpusDecoder = {
  /**
   * The samples of one packet, as many as it says.
   * @throws {Error} if the bytes do not decode
   */
  decode(packet: Uint8Array): Float32Array;
  /** The `samples` before `next`, which were lost: from the copy that `next` carries, or else concealed. */
  recover(next: Uint8Array, samples: number): Float32Array;
  /** What stands in for `samples` lost ones; a multiple of 120. */
  conceal(samples: number): Float32Array;
  close(): void;
};

export type OpusCodec = {
  createEncoder(rateHz: OpusRateHz): Promise<OpusEncoder>;
  /** Decodes to 48 kHz. */
  createDecoder(): Promise<OpusDecoder>;
  /** Makes every encoder, also those that are open, so complex from its next packet on: 0…10. */
  setComplexity(complexity: number): void;
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
  let { complexity } = settings;
  return {
    setComplexity(wanted) {
      complexity = wanted;
    },
    async createEncoder(rateHz) {
      const encoder = await createEncoder({
        sampleRate: rateHz,
        channels: 1,
        frameSize: (rateHz * FRAME_MS) / 1000,
        application: Application.RestrictedLowDelay,
        bitrate: settings.bitrateBps,
        complexity,
      });
      let ownComplexity = complexity;
      const encodeFrame = (frame: Float32Array) => {
        if (ownComplexity !== complexity) encoder.encoderCtl(EncoderCtl.SetComplexity, complexity);
        ownComplexity = complexity;
        return encoder.encodeFloat(frame);
      };
      let isPrimed = false;
      const depend = (onTheLastPacket: boolean) =>
        encoder.encoderCtl(EncoderCtl.SetPredictionDisabled, onTheLastPacket ? 0 : 1);
      return {
        encode: (frame) => {
          const packet = encodeFrame(frame);
          if (isPrimed) depend(true);
          isPrimed = false;
          return Buffer.from(packet.buffer, packet.byteOffset, packet.byteLength);
        },
        prime: (frame) => {
          encodeFrame(frame);
          depend(false);
          isPrimed = true;
        },
        close: () => encoder.free(),
      };
    },
    async createDecoder() {
      const decoder = await createDecoder({ sampleRate: SAMPLE_RATE_HZ, channels: 1 });
      return {
        decode: (packet) => decoder.decodeFloat(packet),
        recover: (next, samples) =>
          decoder.decodeFloat(next, { decodeFec: true, frameSize: samples }),
        conceal: (samples) => decoder.decodePacketLossFloat(samples),
        close: () => decoder.free(),
      };
    },
  };
}
