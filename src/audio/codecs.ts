import { DecoderThread } from './decoding/decoder-thread.ts';
import { loadOpusCodec, type OpusCodec } from './opus-codec.ts';
import { loadResampler, type ResamplerFactory } from './resampler.ts';

/** What audio is turned into other audio with; loaded once. */
export type Codecs = {
  opus: OpusCodec;
  openResampler: ResamplerFactory;
  /** Decoders of compressed sound; costs nothing until the first is used. */
  frames: DecoderThread;
};

/** Bit rate (bit/s) and complexity (0…10) of the Opus that the gateway encodes. */
export type CodecSettings = { bitrateBps: number; complexity: number };

/** Loads them for this thread. */
export async function loadCodecs(settings: CodecSettings): Promise<Codecs> {
  const [opus, openResampler] = await Promise.all([loadOpusCodec(settings), loadResampler()]);
  return { opus, openResampler, frames: new DecoderThread() };
}
