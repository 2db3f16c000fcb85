import { DecoderThread, type FrameDecoders } from './decoding/decoder-thread.ts';
import { type CodecSettings, loadOpusCodec, type OpusCodec } from './opus-codec.ts';
import { loadResampler, type ResamplerFactory } from './resampler.ts';

/** Codecs and resamplers of one thread; loaded once. */
export type Codecs = {
  opus: OpusCodec;
  openResampler: ResamplerFactory;
  /** Decoders of compressed audio. */
  frames: FrameDecoders;
};

export type LoadedCodecs = Codecs & {
  /** Thread of the decoders; not started before the first is used. */
  frames: DecoderThread;
};

/** Loads the codecs of this thread. */
export async function loadCodecs(settings: CodecSettings): Promise<LoadedCodecs> {
  const [opus, openResampler] = await Promise.all([loadOpusCodec(settings), loadResampler()]);
  return { opus, openResampler, frames: new DecoderThread() };
}

/** Returns codecs whose decoders take turns with those of other accounts. */
export const codecsOfAccount = (codecs: LoadedCodecs, account: number): Codecs => ({
  ...codecs,
  frames: codecs.frames.ofAccount(account),
});
