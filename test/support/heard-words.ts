import { rmsOf, type Word } from './speech.ts';

/** Beginnings of words as a listener hears them, compared with the same words in the sender's own stream. */

const WINDOW_SAMPLES = 240;
const WINDOW_MS = 5;
const BEGINNING_SAMPLES = 5760;
/** Level below that of its word from which on a window is not counted, dB. */
const COUNTED_DB = 25;
/** Length of the part in the middle of a word by which the word is found. */
const MIDDLE_SAMPLES = 4800;
/** Maximum distance of a heard word from the place at which it is looked for. */
const MAX_OFF_SAMPLES = 14_400;
/** Distance in samples between the positions that are compared first. */
const COARSE_STEP = 4;

/** Sound that is heard, in pieces that follow each other without a gap; each with its place on the listener's clock. */
export type HeardPiece = { fromSample: number; sound: Float32Array };

export type WordError = {
  /** Loudest of its windows of 5 ms over the reference, in dB; -Infinity when not heard at all. */
  loudestDb: number;
  /** The sum of the windows that are more than 6 dB too soft. */
  softMs: number;
  /** Largest excess of its beginning over the loudest window of the whole word. */
  overWordDb: number;
  /** True if nothing like it is heard. */
  isMissing: boolean;
  /** Position at which it is heard, relative to that at which it was spoken. */
  offSamples: number;
};

/** Figures of many words that are told in a table. */
export type WordReport = {
  words: number;
  loud3: number;
  loud6: number;
  worstDb: number;
  louderThanWord: number;
  soft: number;
  missing: number;
};

/**
 * Compares the beginning of each word with a reference.
 * @param words where they stand in the reference
 */
export function compareWords(
  reference: Float32Array,
  heard: HeardPiece[],
  words: Word[],
): WordError[] {
  const timeline = joinPieces(heard);
  return words.map((word) => compareWord(reference, timeline, word));
}

/** Puts pieces where they belong, with silence in between. */
export function joinPieces(pieces: HeardPiece[]): Float32Array {
  const end = pieces.reduce((most, p) => Math.max(most, p.fromSample + p.sound.length), 0);
  const timeline = new Float32Array(end + 2 * MAX_OFF_SAMPLES);
  // Sound before the clock of the reference begins is left out.
  for (const { fromSample, sound } of pieces) {
    timeline.set(sound.subarray(Math.max(0, -fromSample)), Math.max(0, fromSample));
  }
  return timeline;
}

function compareWord(reference: Float32Array, heard: Float32Array, word: Word): WordError {
  const { fromSample, samples } = word;
  const off = findWord(reference, heard, word);
  if (off === undefined) {
    const none = { loudestDb: -Infinity, overWordDb: -Infinity };
    return { ...none, softMs: BEGINNING_SAMPLES / 48, isMissing: true, offSamples: 0 };
  }
  const levelOf = (sound: Float32Array, from: number) =>
    20 * Math.log10(rmsOf(sound.subarray(from, from + WINDOW_SAMPLES)) + 1e-9);
  const wordDb =
    20 * Math.log10(rmsOf(reference.subarray(fromSample, fromSample + samples)) + 1e-9);
  let loudestOfWordDb = -Infinity;
  for (let at = 0; at < samples; at += WINDOW_SAMPLES) {
    loudestOfWordDb = Math.max(loudestOfWordDb, levelOf(reference, fromSample + at));
  }
  let [loudestDb, overWordDb, softMs] = [-Infinity, -Infinity, 0];
  for (let at = 0; at < Math.min(samples, BEGINNING_SAMPLES); at += WINDOW_SAMPLES) {
    const asSent = levelOf(reference, fromSample + at);
    const asHeard = levelOf(heard, Math.max(0, fromSample + at + off));
    // Sound where next to nothing was said counts against the least that is counted.
    const leastDb = wordDb - COUNTED_DB;
    if (asSent < leastDb && asHeard < leastDb) continue;
    loudestDb = Math.max(loudestDb, asHeard - Math.max(asSent, leastDb));
    overWordDb = Math.max(overWordDb, asHeard - loudestOfWordDb);
    if (asSent >= leastDb && asHeard < asSent - 6) softMs += WINDOW_MS;
  }
  return { loudestDb, softMs, overWordDb, isMissing: false, offSamples: off };
}

export type EntryError = Pick<WordError, 'loudestDb' | 'softMs' | 'isMissing'> & {
  /** Time of the rest of the word that passes before anything is heard. */
  lateMs: number;
};

/**
 * Compares what somebody hears who begins to in the middle of a word: the first 120 ms of it.
 * @param references the stream as it was sent, and as another encoder may have made it: each window counts by the one that it is nearest to
 * @param heard from the moment on at which the listener began
 * @param rest of the word, from that moment on
 */
export function compareEntry(
  references: Float32Array[],
  heard: HeardPiece[],
  rest: Word,
): EntryError {
  const [first] = heard;
  const timeline = joinPieces(heard);
  const heardFrom = Math.max(0, first?.fromSample ?? 0);
  const offOfMiddle = findWord(references[0]!, timeline, rest);
  const off = findBeginning(references[0]!, timeline, heardFrom, offOfMiddle);
  if (off === undefined || !first) {
    return { loudestDb: -Infinity, softMs: 0, isMissing: true, lateMs: Infinity };
  }
  const { fromSample, samples } = rest;
  const levelOf = (sound: Float32Array, from: number, length = WINDOW_SAMPLES) =>
    20 * Math.log10(rmsOf(sound.subarray(from, from + length)) + 1e-9);
  const leastDb = levelOf(references[0]!, fromSample, samples) - COUNTED_DB;
  const beginsAt = heardFrom - off;
  const end = Math.min(beginsAt + BEGINNING_SAMPLES, fromSample + samples) - WINDOW_SAMPLES;
  let [loudestDb, softMs] = [-Infinity, 0];
  for (let at = beginsAt; at <= end; at += WINDOW_SAMPLES) {
    const asHeard = levelOf(timeline, at + off);
    const asSent = references.map((reference) => levelOf(reference, Math.max(0, at)));
    if (Math.max(...asSent, asHeard) < leastDb) continue;
    const overDb = Math.min(...asSent.map((db) => asHeard - Math.max(db, leastDb)));
    loudestDb = Math.max(loudestDb, overDb);
    if (asSent.every((db) => db >= leastDb && asHeard < db - 6)) softMs += WINDOW_MS;
  }
  return { loudestDb, softMs, isMissing: false, lateMs: (beginsAt - fromSample) / 48 };
}

/** Likeness from which on a beginning that is encoded once more is the sound that was sent, whatever its level. */
const SAME_SOUND = 0.7;
const CLEARLY_MORE = 0.05;

/**
 * Delay of the first 120 ms that are heard: that of the middle of the word, unless they are clearly the sound of another moment. A listener
 * that goes over from a mix to packets in a quiet moment of the word hears what follows at another delay, and of a short rest of a word
 * the middle may not be heard.
 * @param heardFrom where they stand in `heard`
 * @returns undefined if neither they nor the middle are found
 */
function findBeginning(
  reference: Float32Array,
  heard: Float32Array,
  heardFrom: number,
  offOfMiddle: number | undefined,
): number | undefined {
  const beginning = heard.subarray(heardFrom, heardFrom + BEGINNING_SAMPLES);
  const coarse = likenessTo(beginning, reference, COARSE_STEP * 2);
  const fine = likenessTo(beginning, reference, 1);
  let [best, most] = [0, 0];
  for (let off = -MAX_OFF_SAMPLES / 3; off < MAX_OFF_SAMPLES; off += COARSE_STEP) {
    const alike = coarse(heardFrom - off);
    if (alike > most) [best, most] = [off, alike];
  }
  most = offOfMiddle === undefined ? 0 : fine(heardFrom - offOfMiddle) + CLEARLY_MORE;
  let found = offOfMiddle;
  for (let off = best - COARSE_STEP; off <= best + COARSE_STEP; off += 1) {
    const alike = fine(heardFrom - off);
    if (alike >= SAME_SOUND && alike > most) [found, most] = [off, alike];
  }
  return found;
}

const LEVEL_WINDOW_SAMPLES = 960;
/** A sound that is softer than a word by this much does not change its level. */
const MASKED_DB = 20;

/**
 * The level errors of what is heard, in dB, in windows of 20 ms of each word in which it is within 25 dB of its level.
 * A word that is not found is looked for where the one before it was heard.
 * @param other what another says meanwhile, on the same clock: words of whose middle it hides a part, and windows in which it is
 * not far softer, are left out
 */
export function windowErrors(
  reference: Float32Array,
  heard: HeardPiece[],
  words: Word[],
  other: Float32Array,
): number[] {
  const timeline = joinPieces(heard);
  const levelOf = (sound: Float32Array, from: number, samples = LEVEL_WINDOW_SAMPLES) =>
    20 * Math.log10(rmsOf(sound.subarray(from, from + samples)) + 1e-9);
  const isAlone = (word: Word) => {
    const { from, samples } = middleOf(word);
    return levelOf(other, from, samples) < levelOf(reference, from, samples) - MASKED_DB / 2;
  };
  let off = 0;
  return words.filter(isAlone).flatMap((word) => {
    off = findWord(reference, timeline, word) ?? off;
    const leastDb = levelOf(reference, word.fromSample, word.samples) - COUNTED_DB;
    const errors: number[] = [];
    const end = word.fromSample + word.samples - LEVEL_WINDOW_SAMPLES;
    let nearby = off;
    for (let at = word.fromSample; at < end; at += LEVEL_WINDOW_SAMPLES) {
      const asSent = levelOf(reference, at);
      // The sound that is heard may be of some milliseconds later or earlier.
      const otherDb = levelOf(other, Math.max(0, at - 960), 3 * LEVEL_WINDOW_SAMPLES);
      if (asSent < leastDb || otherDb > asSent - MASKED_DB) continue;
      nearby = followStretch(reference, timeline, at, nearby);
      errors.push(levelOf(timeline, Math.max(0, at + nearby)) - asSent);
    }
    return errors;
  });
}

/** This much of a sound around a window tells how far it has been stretched since the window before: less than a pitch period of 20 ms. */
const AROUND_SAMPLES = 1920;
const MOST_STRETCH_SAMPLES = 960;

/** Delay of a window, if the one before it was heard `off` later: the same, unless another is clearly better. */
function followStretch(reference: Float32Array, heard: Float32Array, at: number, off: number) {
  const from = Math.max(0, at - (AROUND_SAMPLES - LEVEL_WINDOW_SAMPLES) / 2);
  const sound = reference.subarray(from, from + AROUND_SAMPLES);
  const fine = likenessTo(sound, heard, 1);
  const coarse = likenessTo(sound, heard, COARSE_STEP);
  let [best, most] = [off, fine(from + off) + 0.05];
  for (let by = -MOST_STRETCH_SAMPLES; by <= MOST_STRETCH_SAMPLES; by += COARSE_STEP) {
    const alike = coarse(from + off + by);
    if (alike > most) [best, most] = [off + by, alike];
  }
  return best;
}

/**
 * Returns the normalized correlation of a sound with what is heard from a sample on, looking at one sample in `step`.
 * Nothing is heard outside of `heard`.
 */
function likenessTo(sound: Float32Array, heard: Float32Array, step: number) {
  let power = 0;
  for (let i = 0; i < sound.length; i += step) power += sound[i]! ** 2;
  return (from: number): number => {
    const first = Math.max(0, Math.ceil(-from / step)) * step;
    const end = Math.min(sound.length, heard.length - from);
    // Two sums of each, which do not wait for each other, take half the time of one.
    let [product, otherProduct, heardPower, otherPower] = [0, 0, 0, 0];
    let i = first;
    for (; i + step < end; i += 2 * step) {
      const sample = heard[from + i]!;
      const other = heard[from + i + step]!;
      product += sound[i]! * sample;
      otherProduct += sound[i + step]! * other;
      heardPower += sample * sample;
      otherPower += other * other;
    }
    if (i < end) {
      product += sound[i]! * heard[from + i]!;
      heardPower += heard[from + i]! ** 2;
    }
    return (product + otherProduct) / Math.sqrt(power * (heardPower + otherPower) + 1e-12);
  };
}

const middleOf = ({ fromSample, samples }: Word) => ({
  from: fromSample + Math.max(0, (samples - MIDDLE_SAMPLES) >> 1),
  samples: Math.min(MIDDLE_SAMPLES, samples),
});

/** Delay of the middle of a word relative to the reference, samples; undefined if it is not heard. */
export function findWord(
  reference: Float32Array,
  heard: Float32Array,
  word: Word,
): number | undefined {
  const { from, samples } = middleOf(word);
  const middle = reference.subarray(from, from + samples);
  const coarse = likenessTo(middle, heard, COARSE_STEP * 2);
  const fine = likenessTo(middle, heard, 1);
  let [best, most] = [0, 0];
  for (let off = -MAX_OFF_SAMPLES / 3; off < MAX_OFF_SAMPLES; off += COARSE_STEP) {
    const alike = coarse(from + off);
    if (alike > most) [best, most] = [off, alike];
  }
  for (let off = best - COARSE_STEP; off <= best + COARSE_STEP; off += 1) {
    const alike = fine(from + off);
    if (alike > most) [best, most] = [off, alike];
  }
  return most > 0.5 ? best : undefined;
}

export const reportWords = (errors: WordError[]): WordReport => ({
  words: errors.length,
  loud3: errors.filter(({ loudestDb }) => loudestDb > 3).length,
  loud6: errors.filter(({ loudestDb }) => loudestDb > 6).length,
  worstDb: Math.max(...errors.map(({ loudestDb }) => loudestDb)),
  louderThanWord: errors.filter(({ overWordDb }) => overWordDb > 0.5).length,
  soft: errors.filter(({ softMs }) => softMs >= 40).length,
  missing: errors.filter(({ isMissing }) => isMissing).length,
});
