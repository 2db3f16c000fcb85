import { Application, createDecoder, createEncoder, EncoderCtl, loadLibopus } from 'libopus-wasm';
import { FRAME_MS, SAMPLE_RATE_HZ } from '../format.ts';
import type { EncoderLibrary, OpusDecoder } from './libopus.ts';

/** Decodes to 48 kHz. */
type DecoderLibrary = { openDecoder(): Promise<OpusDecoder> };

/**
 * Loads libopus as WebAssembly: it runs wherever Node does, and sandboxes bytes of clients. Encoding takes
 * about twice as long as with the machine's own libopus.
 */
export async function loadWasmLibopus(): Promise<EncoderLibrary & DecoderLibrary> {
  await loadLibopus();
  return {
    name: 'WebAssembly',
    async openEncoder({ rateHz, bitrateBps, complexity }) {
      const encoder = await createEncoder({
        sampleRate: rateHz,
        channels: 1,
        frameSize: (rateHz * FRAME_MS) / 1000,
        application: Application.RestrictedLowDelay,
        bitrate: bitrateBps,
        complexity,
      });
      return {
        encode: (frame) => {
          const packet = encoder.encodeFloat(frame);
          return Buffer.from(packet.buffer, packet.byteOffset, packet.byteLength);
        },
        setComplexity: (wanted) => encoder.encoderCtl(EncoderCtl.SetComplexity, wanted),
        setBitrateBounded: (isBounded) =>
          encoder.encoderCtl(EncoderCtl.SetVbrConstraint, isBounded ? 1 : 0),
        setPrediction: (isEnabled) =>
          encoder.encoderCtl(EncoderCtl.SetPredictionDisabled, isEnabled ? 0 : 1),
        close: () => encoder.free(),
      };
    },
    async openDecoder() {
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
