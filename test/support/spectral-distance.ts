import { findWord, type HeardPiece, joinPieces } from './heard-words.ts';
import { rmsOf, type Word } from './speech.ts';

/** Distance between the short-time spectra of heard and of spoken audio. */

const RATE_HZ = 48_000;
const FRAME_SAMPLES = 960;
const FFT_SAMPLES = 1024;
const LOWEST_HZ = 100;
/** Frames of a word that are softer than the word by more than this are not compared. */
const COUNTED_DB = 25;
/** Spectral lines that are softer than their word by more than this count as this. */
const FLOOR_DB = 60;

const WINDOW = Float64Array.from(
  { length: FRAME_SAMPLES },
  (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * (i + 0.5)) / FRAME_SAMPLES),
);

/**
 * Returns a function that measures the log-spectral distance in dB between what is heard and what was said: the root of the mean square
 * difference of the log power spectra, frame by frame (20 ms), and the mean of that. Each word is compared where it is heard, which is
 * found by the sender's own stream: some encoders change the shape of a sound so much that it is not found by what was said.
 * @param said what went into the chain, at 48 kHz
 * @param own the sender's own stream, decoded whole
 * @param words where they stand in `said`
 * @param highestHz above this nothing is compared
 * @returns the function returns undefined if a word is not heard
 */
export function distanceMeter(
  said: Float32Array,
  own: Float32Array,
  words: Word[],
  highestHz: number,
): (heard: HeardPiece[]) => number | undefined {
  const lag = lagOf(said, own, words);
  return (heard) => {
    const timeline = joinPieces(heard);
    let [sum, count] = [0, 0];
    for (const { fromSample, samples } of words) {
      const off = findWord(own, timeline, { fromSample: fromSample + lag, samples });
      if (off === undefined) return undefined;
      const wordRms = rmsOf(said.subarray(fromSample, fromSample + samples));
      for (let at = fromSample; at + FRAME_SAMPLES <= fromSample + samples; at += FRAME_SAMPLES) {
        const frame = said.subarray(at, at + FRAME_SAMPLES);
        if (20 * Math.log10(rmsOf(frame) / wordRms) < -COUNTED_DB) continue;
        const from = Math.max(0, at + lag + off);
        const other = timeline.subarray(from, from + FRAME_SAMPLES);
        sum += distanceOf(frame, other, wordRms, highestHz);
        count += 1;
      }
    }
    return count > 0 ? sum / count : undefined;
  };
}

/** Delay of a sender's own stream behind what was said, samples: the median of those of the words that are found in it. */
function lagOf(said: Float32Array, own: Float32Array, words: Word[]): number {
  const lags = words
    .map((word) => findWord(said, own, word))
    .filter((lag) => lag !== undefined)
    .toSorted((one, other) => one - other);
  const lag = lags[lags.length >> 1];
  if (lag === undefined) throw new Error('no word is found in the stream');
  return lag;
}

function distanceOf(
  one: Float32Array,
  other: Float32Array,
  wordRms: number,
  highestHz: number,
): number {
  const [a, b] = [powerSpectrum(one), powerSpectrum(other)];
  // Power of one line of white noise as loud as the word.
  const floor = ((wordRms ** 2 * (FRAME_SAMPLES * 3)) / 8) * 10 ** (-FLOOR_DB / 10);
  const lineOf = (hz: number) => Math.round((hz * FFT_SAMPLES) / RATE_HZ);
  const [first, last] = [lineOf(LOWEST_HZ), lineOf(highestHz)];
  let sum = 0;
  for (let line = first; line <= last; line += 1) {
    const db = 10 * Math.log10((a[line]! + floor) / (b[line]! + floor));
    sum += db ** 2;
  }
  return Math.sqrt(sum / (last - first + 1));
}

/** Power of each spectral line of a frame, through a Hann window. */
function powerSpectrum(frame: Float32Array): Float64Array {
  const re = new Float64Array(FFT_SAMPLES);
  const im = new Float64Array(FFT_SAMPLES);
  for (let i = 0; i < frame.length; i += 1) re[i] = frame[i]! * WINDOW[i]!;
  transform(re, im);
  for (let line = 0; line < FFT_SAMPLES; line += 1) re[line] = re[line]! ** 2 + im[line]! ** 2;
  return re;
}

/** Cosine and sine of each angle of the transform. */
const COS = Float64Array.from({ length: FFT_SAMPLES / 2 }, (_, i) =>
  Math.cos((2 * Math.PI * i) / FFT_SAMPLES),
);
const SIN = Float64Array.from({ length: FFT_SAMPLES / 2 }, (_, i) =>
  Math.sin((2 * Math.PI * i) / FFT_SAMPLES),
);

/** The fast Fourier transform of {@link FFT_SAMPLES} samples, in place. */
function transform(re: Float64Array, im: Float64Array): void {
  const length = FFT_SAMPLES;
  for (let i = 1, j = 0; i < length; i += 1) {
    let bit = length >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [re[i], re[j]] = [re[j]!, re[i]!];
      [im[i], im[j]] = [im[j]!, im[i]!];
    }
  }
  for (let half = 1; half < length; half *= 2) {
    const angles = length / (2 * half);
    for (let k = 0; k < half; k += 1) {
      const cos = COS[k * angles]!;
      const sin = -SIN[k * angles]!;
      for (let i = k; i < length; i += 2 * half) {
        const j = i + half;
        const x = re[j]! * cos - im[j]! * sin;
        const y = re[j]! * sin + im[j]! * cos;
        re[j] = re[i]! - x;
        im[j] = im[i]! - y;
        re[i]! += x;
        im[i]! += y;
      }
    }
  }
}
