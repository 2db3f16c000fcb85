import { readFileSync } from 'node:fs';
import { readSamples } from '../../src/audio/samples.ts';
import { energyOf } from './sound.ts';

/** Reads one of the recordings in test/fixtures/formats; its README says what they are. */
export const readFixture = (name: string): Buffer =>
  readFileSync(new URL(`../fixtures/formats/${name}`, import.meta.url));

/** The length of the head of speech.wav. */
export const WAV_HEAD_BYTES = 44;
/** The speech of all recordings, at 16 kHz. */
export const SPEECH = readSamples(readFixture('speech.wav').subarray(WAV_HEAD_BYTES), 'pcm_s16le');
export const SPEECH_RATE_HZ = 16_000;

/** Both are compared at 8 kHz. */
const COMPARED_RATE_HZ = 8000;
const MAX_LATE_MS = 250;

/** Cuts bytes into messages of these lengths, over and over. */
export function cutInto(whole: Buffer, lengths: readonly number[]): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0, i = 0; at < whole.length; i += 1) {
    const length = lengths[i % lengths.length]!;
    parts.push(whole.subarray(at, at + length));
    at += length;
  }
  return parts;
}

/**
 * Difference of a sound at 48 kHz from the speech: in level, dB, and in form (1: none), wherever in the first
 * 250 ms it begins.
 */
export function compareWithSpeech(heard: Float32Array): { offDb: number; likeness: number } {
  const [reference, sound] = [decimate(SPEECH, 2), decimate(heard, 6)];
  let likeness = 0;
  for (let late = 0; late < (MAX_LATE_MS * COMPARED_RATE_HZ) / 1000; late += 1) {
    let product = 0;
    const length = Math.min(reference.length, sound.length - late);
    for (let i = 0; i < length; i += 1) product += reference[i]! * sound[i + late]!;
    likeness = Math.max(likeness, product);
  }
  const [referenceEnergy, soundEnergy] = [energyOf(reference), energyOf(sound)];
  return {
    offDb: 10 * Math.log10(soundEnergy / referenceEnergy),
    likeness: likeness / Math.sqrt(referenceEnergy * soundEnergy),
  };
}

/** Difference in level of a sound at 48 kHz from the speech, dB. */
export const levelOverSpeechDb = (heard: Float32Array): number =>
  10 * Math.log10(energyOf(decimate(heard, 6)) / energyOf(decimate(SPEECH, 2)));

/** Length of the pieces of {@link likenessInPieces}, ms. */
const PIECE_MS = 260;
/** Times by which the whole may be late or early: speech is held at first, and nothing is heard of its pauses. */
const SHIFTS_MS = [0, 200, -200];
/** Likeness from which no better time is searched. */
const ALIKE = 0.9;

/**
 * Likeness (0…1) of the speech and a sound out of a gateway in real time: each piece of the speech may come up to 250 ms earlier or later than in the
 * recording, and the whole 200 ms. Pieces count by their energy.
 */
export function likenessInPieces(heard: Float32Array): number {
  let most = 0;
  for (const shiftMs of SHIFTS_MS) {
    if (most < ALIKE) most = Math.max(most, likenessAround(heard, shiftMs));
  }
  return most;
}

/** Likeness in pieces of a sound that is late by `shiftMs` as a whole. */
function likenessAround(heard: Float32Array, shiftMs: number): number {
  const [reference, slow] = [Float64Array.from(decimate(SPEECH, 2)), decimate(heard, 6)];
  const pieceSamples = (PIECE_MS * COMPARED_RATE_HZ) / 1000;
  const [most, shift] = [MAX_LATE_MS, shiftMs].map((ms) => (ms * COMPARED_RATE_HZ) / 1000) as [
    number,
    number,
  ];
  // With silence behind it, so that each piece can be compared anywhere.
  const sound = new Float64Array(
    Math.max(slow.length, reference.length + most + Math.abs(shift)) + pieceSamples,
  );
  sound.set(slow);
  const energyUpTo = new Float64Array(sound.length + 1);
  for (let i = 0; i < sound.length; i += 1) energyUpTo[i + 1] = energyUpTo[i]! + sound[i]! ** 2;
  let [likeness, energy] = [0, 0];
  for (let from = 0; from + pieceSamples <= reference.length; from += pieceSamples) {
    const piece = reference.subarray(from, from + pieceSamples);
    const pieceEnergy = energyOf(piece);
    let best = 0;
    const middle = from + shift;
    for (let at = Math.max(0, middle - most); at < middle + most; at += 1) {
      const product = productOf(piece, sound, at);
      if (product <= 0) continue;
      const difference = energyUpTo[at + pieceSamples]! - energyUpTo[at]!;
      // The difference of two sums is not exact enough for next to nothing.
      const thereEnergy =
        difference > 1e-6 ? difference : energyOf(sound.subarray(at, at + pieceSamples));
      best = Math.max(best, product / Math.sqrt(pieceEnergy * thereEnergy));
    }
    likeness += best * pieceEnergy;
    energy += pieceEnergy;
  }
  return likeness / energy;
}

/** Sum of the products of a piece, whose length is a multiple of 4, and of the sound from `at` on; four at a time, which takes half the time. */
function productOf(piece: Float64Array, sound: Float64Array, at: number): number {
  let [a, b, c, d] = [0, 0, 0, 0];
  for (let i = 0; i < piece.length; i += 4) {
    a += piece[i]! * sound[at + i]!;
    b += piece[i + 1]! * sound[at + i + 1]!;
    c += piece[i + 2]! * sound[at + i + 2]!;
    d += piece[i + 3]! * sound[at + i + 3]!;
  }
  return a + b + c + d;
}

/** Replaces every `factor` samples by their mean. */
function decimate(sound: Float32Array, factor: number): Float32Array {
  const slow = new Float32Array(Math.floor(sound.length / factor));
  for (let i = 0; i < slow.length; i += 1) {
    let sum = 0;
    for (let k = i * factor; k < (i + 1) * factor; k += 1) sum += sound[k]!;
    slow[i] = sum / factor;
  }
  return slow;
}
