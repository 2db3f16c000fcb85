import {
  LEAST_NOVEL_BYTES,
  novelBytesOf,
  readAsSamples,
  type Hypothesis,
  unexplainedBitsPerByte,
} from './description-length.ts';

/** Maximum bits a byte of an explanation: one that takes almost 8 is no better than none. */
const MOST_BITS_PER_BYTE = 7.75;

/** Sound, with the evidence of its bytes alone. */
export type Content = {
  sound: Buffer;
  /** Share of the sound that counts: exact repetitions count once, for any format. */
  novelShare: number;
  /** True if enough of it counts to distinguish formats that are seldom sent. */
  isNovel: boolean;
  /** Hypotheses of the bytes as samples, calculated on demand: slow Opus needs none. */
  readonly hypotheses: Hypothesis[];
  /** Bits a byte if none of the hypotheses applies. */
  unexplainedBits: number;
};

/** Returns the evidence in the bytes of some sound. */
export function contentOf(sound: Buffer): Content {
  const novelBytes = novelBytesOf(sound);
  let hypotheses: Hypothesis[] | undefined;
  return {
    sound,
    novelShare: sound.length > 0 ? novelBytes / sound.length : 1,
    isNovel: novelBytes >= LEAST_NOVEL_BYTES,
    get hypotheses() {
      hypotheses ??= sound.length > 0 ? readAsSamples(sound) : [];
      return hypotheses;
    },
    unexplainedBits: Math.min(MOST_BITS_PER_BYTE, unexplainedBitsPerByte(sound)),
  };
}
