import { msOf } from './chirp.ts';

/** Sound that was heard, in one piece. */
export type Heard = {
  samples: Float32Array;
  /** Returns when a sample is heard, in ms, by a player that plays each frame as it comes; undefined if none came there. */
  timeOf(sample: number): number | undefined;
};

/** A frame of sound, its place in samples, and when it came. */
export type HeardFrame = { at: number; samples: Float32Array; atMs: number };

/** A frame that claims to be further on than this is left out: its timestamp is wrong. */
const LONGEST_SAMPLES = 20 * 48_000;

/** Puts frames in one piece, with silence where none came. */
export function joinFrames(frames: HeardFrame[]): Heard {
  const usable = frames.filter(({ at }) => at >= 0 && at < LONGEST_SAMPLES);
  const ends = usable.map(({ at, samples }) => at + samples.length);
  const joined = new Float32Array(Math.max(0, ...ends));
  for (const { at, samples } of usable) joined.set(samples, at);
  return {
    samples: joined,
    timeOf: (sample) => {
      const frame = usable.find(({ at, samples }) => sample >= at && sample < at + samples.length);
      return frame && frame.atMs + msOf(sample - frame.at);
    },
  };
}
