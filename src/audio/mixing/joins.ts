import { ENCODER_DELAY_SAMPLES } from '../opus-codec.ts';
import { FRAME_SAMPLES } from '../format.ts';
import { powerOf, QUIET_POWER } from '../level.ts';
import { NOISE_SIMILARITY, similarityOf } from '../similarity.ts';

/**
 * Seams at which a listener changes from the packets of a speaker to a mix, or back. An encoder delays the mix by 2.5 ms, so that packets
 * and mix are never at the same position of the audio: the seam is where they resemble each other. Pure; samples are 48 kHz mono.
 */

/** Length of the compared audio, samples: 5 ms. */
const COMPARED_SAMPLES = 240;
const COARSE_STEP = 4;
/** Distance, samples, around the best coarse offset within which a better one is searched: {@link AS_GOOD} skips those between. */
const REFINED_SAMPLES = 24;
const MAX_LATE_SAMPLES = 480;
/** Difference of similarity up to which an earlier offset counts as good as the best. */
const AS_GOOD = 0.02;
/** Similarity of both sides from which a seam is inaudible. */
const ALIKE = 0.9;

/** Last two frames of a speaker, and the decoded audio after them. */
export type Sound = { previous: Float32Array; frame: Float32Array; rest: Float32Array };

/**
 * Returns the number of samples by which a mix that begins with `frame` must be late, so that it continues from the speaker's packets.
 * @param aheadSamples number of samples of `frame` and `rest` that those packets cover
 */
export function findLateSamples({ previous, frame, rest }: Sound, aheadSamples: number): number {
  const sound = joined([previous, frame, rest]);
  const heardUntil = FRAME_SAMPLES + aheadSamples;
  // The audio after `heardUntil` is not always known.
  const isNextKnown = heardUntil + COMPARED_SAMPLES <= sound.length;
  const from = isNextKnown ? heardUntil : heardUntil - COMPARED_SAMPLES;
  const compared = sound.subarray(from, from + COMPARED_SAMPLES);
  if (powerOf(compared) < QUIET_POWER) return 0;
  const beforeSamples = ENCODER_DELAY_SAMPLES + heardUntil - from;
  const alikeAt = (late: number) =>
    similarityOf(compared, sound.subarray(FRAME_SAMPLES - beforeSamples - late));
  let [best, most] = [0, alikeAt(0)];
  for (let late = COARSE_STEP; late < MAX_LATE_SAMPLES; late += COARSE_STEP) {
    const alike = alikeAt(late);
    if (alike > most + AS_GOOD) [best, most] = [late, alike];
  }
  if (most < NOISE_SIMILARITY) return 0;
  const nearest = Math.max(0, best - REFINED_SAMPLES);
  const farthest = best + REFINED_SAMPLES;
  for (let late = nearest; late <= farthest; late += 1) {
    const alike = alikeAt(late);
    if (alike > most) [best, most] = [late, alike];
  }
  return best;
}

/** Returns true if the packets after `rest` continue the audio of a mix's Opus packet that ends with `frame` and is `lateSamples` late. */
export function isAlike({ previous, frame, rest }: Sound, lateSamples: number): boolean {
  const sound = joined([previous, frame, rest]);
  const heardUntil = 2 * FRAME_SAMPLES - ENCODER_DELAY_SAMPLES - lateSamples;
  const heard = sound.subarray(heardUntil - COMPARED_SAMPLES, heardUntil);
  return similarityOf(heard, sound.subarray(-COMPARED_SAMPLES)) >= ALIKE;
}

function joined(parts: Float32Array[]): Float32Array {
  const sound = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    sound.set(part, at);
    at += part.length;
  }
  return sound;
}
