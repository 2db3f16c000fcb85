import type { Codecs } from '../codecs.ts';
import { FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ } from '../format.ts';
import { similarityOf } from '../similarity.ts';
import { ENCODER_DELAY_SAMPLES } from '../opus-codec.ts';

/** Last packets that an ingest has handed on, and the arrival time of the message that completed the last of them. */
export type LastPackets = { packets: Buffer[]; atMs: number };

/** Transition from one encoder, or a client's own, to another: audio of 20 ms, at the rate of the new encoder. */
export type Splice = {
  /** Samples that the new encoder treats as the last that it has encoded. */
  before: Float32Array;
  /** Extrapolated continuation of those samples. */
  onward: Float32Array;
  /** Arrival time of the last message before the transition, ms. */
  atMs: number;
};

/** Length of the continuation: the frame after the last that was heard, and the resampler's look-ahead. */
const MADE_UP_SAMPLES = 1440;

/**
 * Returns the audio that a listener of `packets` has heard, by a decoder of the same kind; undefined if they do not
 * decode.
 */
export async function spliceAfter(
  { packets, atMs }: LastPackets,
  rateHz: number,
  codecs: Codecs,
): Promise<Splice | undefined> {
  const decoder = await codecs.opus.createDecoder();
  const sound = new Float32Array(FRAME_SAMPLES + MADE_UP_SAMPLES);
  try {
    for (const packet of packets) {
      const heard = decoder.decode(packet).subarray(-FRAME_SAMPLES);
      sound.copyWithin(0, heard.length, FRAME_SAMPLES);
      sound.set(heard, FRAME_SAMPLES - heard.length);
    }
    sound.set(decoder.conceal(MADE_UP_SAMPLES), FRAME_SAMPLES);
  } catch {
    // A client's own Opus is passed on without decoding: packets that do not decode contain no
    // sound to continue from.
    return undefined;
  } finally {
    decoder.close();
  }
  // Samples come out of a decoder later than they went into the encoder, by this delay.
  const splice = atRate(sound.subarray(ENCODER_DELAY_SAMPLES), rateHz, codecs);
  const frameSamples = (rateHz * FRAME_MS) / 1000;
  return {
    before: splice.slice(0, frameSamples),
    onward: splice.slice(frameSamples, 2 * frameSamples),
    atMs,
  };
}

function atRate(sound: Float32Array, rateHz: number, codecs: Codecs): Float32Array {
  if (rateHz === SAMPLE_RATE_HZ) return sound;
  const resampler = codecs.openResampler(SAMPLE_RATE_HZ, rateHz);
  const resampled = resampler.process(sound);
  resampler.close();
  return resampled;
}

/** Longest pitch period of a voice, ms. */
const MAX_LATER_MS = 10;

/** Returns the number of samples of `onward` after which the beginning of `frame` follows best: where both are most similar. */
export function bestOffsetSamples(onward: Float32Array, frame: Float32Array): number {
  const maxLater = (frame.length * MAX_LATER_MS) / FRAME_MS;
  let [best, mostAlike] = [0, 0];
  for (let later = 0; later < maxLater; later += 1) {
    const alike = similarityOf(onward.subarray(later, later + maxLater), frame);
    if (alike > mostAlike) [best, mostAlike] = [later, alike];
  }
  return best;
}
