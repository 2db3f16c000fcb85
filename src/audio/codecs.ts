import { DecoderThread } from './decoding/decoder-thread.ts';
import { type CodecSettings, loadOpusCodec, type OpusCodec } from './opus-codec.ts';
import { loadResampler, type ResamplerFactory } from './resampler.ts';

/** Codecs and resamplers of one thread; loaded once. */
export type Codecs = {
  opus: OpusCodec;
  openResampler: ResamplerFactory;
  /** Thread of the decoders of compressed audio; not started before the first is used. */
  frames: DecoderThread;
};

/** Loads the codecs of this thread. */
export async function loadCodecs(settings: CodecSettings): Promise<Codecs> {
  const [opus, openResampler] = await Promise.all([loadOpusCodec(settings), loadResampler()]);
  return { opus, openResampler, frames: new DecoderThread() };
}
