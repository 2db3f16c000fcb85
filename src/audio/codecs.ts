import { loadOpusCodec, type OpusCodec } from './opus-codec.ts';
import { loadResampler, type ResamplerFactory } from './resampler.ts';

/** What audio is turned into other audio with; loaded once. */
export type Codecs = { opus: OpusCodec; openResampler: ResamplerFactory };

/** @param settings bit rate (bit/s) and complexity (0…10) of the Opus that the gateway encodes */
export async function loadCodecs(settings: {
  bitrateBps: number;
  complexity: number;
}): Promise<Codecs> {
  const [opus, openResampler] = await Promise.all([loadOpusCodec(settings), loadResampler()]);
  return { opus, openResampler };
}
