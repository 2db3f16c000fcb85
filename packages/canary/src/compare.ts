import { FRAME_SAMPLES } from './chirp.ts';
import type { Heard } from './ear.ts';

/** Finds the played audio in the heard audio, and measures its delay, level and loss. */

/** Played audio, and the sending time of each of its frames of 20 ms, by `performance.now()`. */
export type Played = { samples: Float32Array; sentAtMs: number[] };

export type Comparison = {
  /** True if less than half of the frames were heard. */
  isSilent: boolean;
  /** Share of the frames that were not heard, 0 to 1. */
  lostShare: number;
  /** Median time from the sending of a frame to the moment at which it is heard, in ms; undefined if nothing was heard. */
  mouthToEarMs: number | undefined;
  /** Median level of the frames as heard, above that as played, in dB; undefined if nothing was heard. */
  levelDb: number | undefined;
};

/** The chirp stays below 2 kHz, so that a low rate is enough for comparing: 4 kHz. */
const STEP = 12;
const PIECE = FRAME_SAMPLES / STEP;
/** A place in the sound is found by several frames at once: 160 ms. */
const FRAMES_OF_SEGMENT = 8;
const SEGMENT_SIMILARITY = 0.7;
/** Then each frame is looked for near the place of its segment: within 15 ms. */
const PIECE_RANGE = 60;
const PIECE_SIMILARITY = 0.8;
/** A frame below this level, relative to what was played, is not heard. */
const LEAST_GAIN = 0.05;
const SILENT_SHARE = 0.5;

/** A piece of the played sound in the heard one: its offset, and its amplitude relative to the played one. */
type Match = { at: number; gain: number };

export function compare({ samples, sentAtMs }: Played, heard: Heard): Comparison {
  const played = lowerRate(samples);
  const ear = new Haystack(lowerRate(heard.samples));
  const lags = findSegments(played, ear);
  const matches = sentAtMs.flatMap((sentMs, frame) => {
    const lag = lags[Math.floor(frame / FRAMES_OF_SEGMENT)] ?? medianOf(lags);
    if (lag === undefined) return [];
    const start = frame * PIECE;
    const from = start + lag - PIECE_RANGE;
    const found = ear.find(played.subarray(start, start + PIECE), from, from + 2 * PIECE_RANGE);
    if (!found || found.similarity < PIECE_SIMILARITY || found.gain < LEAST_GAIN) return [];
    return [{ ...found, sentMs }];
  });
  const lostShare = 1 - matches.length / Math.max(1, sentAtMs.length);
  const delays = matches.flatMap(({ at, sentMs }) => {
    const earMs = heard.timeOf(at * STEP);
    return earMs === undefined ? [] : [earMs - sentMs];
  });
  const gain = medianOf(matches.map((match) => match.gain));
  return {
    isSilent: lostShare > SILENT_SHARE,
    lostShare,
    mouthToEarMs: medianOf(delays),
    levelDb: gain === undefined ? undefined : 20 * Math.log10(gain),
  };
}

/** Returns the delay of each segment, in samples; undefined for one that was not found. */
function findSegments(played: Float32Array, ear: Haystack): (number | undefined)[] {
  const length = FRAMES_OF_SEGMENT * PIECE;
  const count = Math.floor(played.length / length);
  return Array.from({ length: count }, (_, segment) => {
    const start = segment * length;
    const found = ear.find(played.subarray(start, start + length), 0, ear.length);
    return found && found.similarity >= SEGMENT_SIMILARITY ? found.at - start : undefined;
  });
}

/** Audio in which other audio is searched. */
class Haystack {
  readonly length: number;
  readonly #samples: Float32Array;
  /** Sum of the squares of all samples before each. */
  readonly #energyBefore: Float64Array;

  constructor(samples: Float32Array) {
    this.length = samples.length;
    this.#samples = samples;
    this.#energyBefore = new Float64Array(samples.length + 1);
    samples.forEach((sample, i) => {
      this.#energyBefore[i + 1] = this.#energyBefore[i]! + sample * sample;
    });
  }

  /**
   * Returns the place between two offsets that is most similar to a piece of audio; undefined if there is only silence.
   * Similarity is the normalized correlation: 1 for the same audio at any level.
   */
  find(
    needle: Float32Array,
    from: number,
    to: number,
  ): (Match & { similarity: number }) | undefined {
    const needleEnergy = needle.reduce((sum, sample) => sum + sample * sample, 0);
    let best: (Match & { similarity: number }) | undefined;
    const last = Math.min(to, this.length - needle.length);
    for (let at = Math.max(0, from); at <= last; at += 1) {
      const energy = this.#energyBefore[at + needle.length]! - this.#energyBefore[at]!;
      if (energy <= 1e-9) continue;
      let product = 0;
      for (let i = 0; i < needle.length; i += 1) product += needle[i]! * this.#samples[at + i]!;
      const similarity = product / Math.sqrt(needleEnergy * energy);
      if (!best || similarity > best.similarity)
        best = { at, similarity, gain: product / needleEnergy };
    }
    return best;
  }
}

/** Decimates by averaging: a crude low-pass filter, but the chirp is far below its limit. */
function lowerRate(samples: Float32Array): Float32Array {
  return Float32Array.from({ length: Math.floor(samples.length / STEP) }, (_, i) => {
    let sum = 0;
    for (let j = i * STEP; j < (i + 1) * STEP; j += 1) sum += samples[j]!;
    return sum / STEP;
  });
}

function medianOf(values: (number | undefined)[]): number | undefined {
  const sorted = values.filter((value) => value !== undefined).toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1];
}
