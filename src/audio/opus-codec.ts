import type { EncoderLibrary, OpusDecoder, OpusRateHz } from './libopus/libopus.ts';
import { loadNativeLibopus } from './libopus/native.ts';
import { loadWasmLibopus } from './libopus/wasm.ts';

export { OPUS_RATES_HZ, type OpusDecoder } from './libopus/libopus.ts';

/** Delay of the encoder's output behind its input, samples at 48 kHz. */
export const ENCODER_DELAY_SAMPLES = 120;

/**
 * Number of last packets that are decoded to splice other sound to their end (`spliceAfter`): 80 ms in packets of 20 ms. Fewer than the
 * 180 ms of `PacketHistory`, because only the last 20 ms are used, to be continued and cross-faded.
 */
export const DECODER_MEMORY_PACKETS = 4;

/**
 * Number of packets after {@link OpusEncoder.beginAnew} that are encoded without a bound of the bit rate. A packet without prediction takes
 * more bits for the same quality; if the next packets were smaller to compensate, soft sound in them would be up to 6 dB too loud.
 */
const BEGINNING_PACKETS = 4;

/** Opus encoder of the gateway: mono, packets of 20 ms. */
export type OpusEncoder = {
  /** @param frame 20 ms of samples at the encoder's rate, -1…1 */
  encode(frame: Float32Array): Buffer;
  /**
   * Continues from 20 ms of audio that the listener has heard from another source, so that the next packet follows without a click; that
   * packet does not depend on the state of the listener's decoder.
   */
  prime(frame: Float32Array): void;
  /** Makes the next packet independent of the state of the listener's decoder, as {@link prime} does, and continues with the sound. */
  beginAnew(): void;
  close(): void;
};

/** Bit rate (bit/s) and complexity (0…10) of the gateway's Opus encoders. */
export type CodecSettings = { bitrateBps: number; complexity: number };

export type OpusCodec = {
  /** Encoder library, for the log: its name, and `fault` if the machine's libopus could not be loaded and the WebAssembly build is used. */
  readonly encoders: { name: string; fault?: unknown };
  createEncoder(rateHz: OpusRateHz): Promise<OpusEncoder>;
  /** Decodes to 48 kHz. */
  createDecoder(): Promise<OpusDecoder>;
  /** Sets the complexity of every encoder, also of open ones, from its next packet on: 0…10. */
  setComplexity(complexity: number): void;
};

/**
 * Loads libopus: decoders as WebAssembly; encoders of the machine's own library, or else as WebAssembly, too. Encoders use the
 * low-delay mode: it is the cheapest, and has no SILK layer, whose predictions need earlier packets: a mix starts in
 * the middle of a sentence.
 */
export async function loadOpusCodec(
  settings: CodecSettings,
  loadNative = loadNativeLibopus,
): Promise<OpusCodec> {
  const wasm = await loadWasmLibopus();
  const encoders: { library: EncoderLibrary; fault?: unknown } = await loadNative().then(
    (library) => ({ library }),
    (fault: unknown) => ({ library: wasm, fault }),
  );
  let { complexity } = settings;
  return {
    encoders: { name: encoders.library.name, fault: encoders.fault },
    setComplexity(wanted) {
      complexity = wanted;
    },
    async createEncoder(rateHz) {
      const { bitrateBps } = settings;
      const encoder = await encoders.library.openEncoder({ rateHz, bitrateBps, complexity });
      let ownComplexity = complexity;
      const encodeFrame = (frame: Float32Array) => {
        if (ownComplexity !== complexity) encoder.setComplexity(complexity);
        ownComplexity = complexity;
        return encoder.encode(frame);
      };
      /** Number of packets still to come that are encoded as a beginning in mid-sound. */
      let restPackets = 0;
      const beginAnew = () => {
        encoder.setPrediction(false);
        encoder.setBitrateBounded(false);
        restPackets = BEGINNING_PACKETS;
      };
      return {
        encode: (frame) => {
          const packet = encodeFrame(frame);
          if (restPackets === BEGINNING_PACKETS) encoder.setPrediction(true);
          if (restPackets === 1) encoder.setBitrateBounded(true);
          if (restPackets > 0) restPackets -= 1;
          return packet;
        },
        prime: (frame) => {
          encodeFrame(frame);
          beginAnew();
        },
        beginAnew,
        close: () => encoder.close(),
      };
    },
    createDecoder: () => wasm.openDecoder(),
  };
}
