import { Imdct } from './imdct.ts';

export const FRAME_SAMPLES = 1024;
const SHORT_SAMPLES = 128;
const SHORT_WINDOWS = 8;
/** Position of the first short window in its block, samples. */
const SHORT_FROM = (FRAME_SAMPLES - SHORT_SAMPLES) / 2;
const BESSEL_TERMS = 50;

export type WindowSequence = 'long' | 'start' | 'short' | 'stop';
export type WindowShape = 'sine' | 'kbd';

/** Rising half of a window. */
type Slope = Float32Array;

const sineSlope = (length: number): Slope =>
  Float32Array.from({ length }, (_, i) => Math.sin(((i + 0.5) * Math.PI) / (2 * length)));

/** Returns a Kaiser-Bessel derived slope (ISO/IEC 14496-3, 4.6.11.3.2). */
function kbdSlope(length: number, alpha: number): Slope {
  const kaiser = Array.from({ length: length + 1 }, (_, i) =>
    bessel(Math.PI * alpha * Math.sqrt(1 - ((2 * i) / length - 1) ** 2)),
  );
  const total = kaiser.reduce((sum, value) => sum + value, 0);
  let sum = 0;
  return Float32Array.from({ length }, (_, i) => {
    sum += kaiser[i]!;
    return Math.sqrt(sum / total);
  });
}

/** Returns the modified Bessel function of the first kind and order 0. */
function bessel(x: number): number {
  let [sum, term] = [1, 1];
  for (let k = 1; k < BESSEL_TERMS; k += 1) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

const SLOPES = {
  sine: { long: sineSlope(FRAME_SAMPLES), short: sineSlope(SHORT_SAMPLES) },
  kbd: { long: kbdSlope(FRAME_SAMPLES, 4), short: kbdSlope(SHORT_SAMPLES, 6) },
};
/** Returns the half of a long window that is next to a short one: zeros, the slope of the short window, then ones. */
const besideShort = (slope: Slope): Slope => {
  const long = new Float32Array(FRAME_SAMPLES).fill(1);
  long.fill(0, 0, SHORT_FROM);
  long.set(slope, SHORT_FROM);
  return long;
};
const SHORT_SLOPES = {
  sine: besideShort(SLOPES.sine.short),
  kbd: besideShort(SLOPES.kbd.short),
};
const LONG = new Imdct(FRAME_SAMPLES);
const SHORT = new Imdct(SHORT_SAMPLES);

/** Converts the spectra of one channel to samples by overlapping windows. */
export class FilterBank {
  /** Second half of the last block, which overlaps the next one. */
  readonly #overlap = new Float32Array(FRAME_SAMPLES);
  #shape: WindowShape = 'sine';

  /** Converts the spectrum of one frame. @returns 1024 samples, in a new array */
  synthesize(spectrum: Float32Array, sequence: WindowSequence, shape: WindowShape): Float32Array {
    const block = new Float32Array(2 * FRAME_SAMPLES);
    if (sequence === 'short') this.#synthesizeShort(spectrum, shape, block);
    else this.#synthesizeLong(spectrum, sequence, shape, block);
    for (let i = 0; i < FRAME_SAMPLES; i += 1) block[i]! += this.#overlap[i]!;
    this.#overlap.set(block.subarray(FRAME_SAMPLES));
    this.#shape = shape;
    return block.slice(0, FRAME_SAMPLES);
  }

  #synthesizeLong(
    spectrum: Float32Array,
    sequence: WindowSequence,
    shape: WindowShape,
    block: Float32Array,
  ): void {
    LONG.transform(spectrum, block);
    const rising = sequence === 'stop' ? SHORT_SLOPES[this.#shape] : SLOPES[this.#shape].long;
    const falling = sequence === 'start' ? SHORT_SLOPES[shape] : SLOPES[shape].long;
    for (let i = 0; i < FRAME_SAMPLES; i += 1) {
      block[i]! *= rising[i]!;
      block[2 * FRAME_SAMPLES - 1 - i]! *= falling[i]!;
    }
  }

  #synthesizeShort(spectrum: Float32Array, shape: WindowShape, block: Float32Array): void {
    const window = new Float32Array(2 * SHORT_SAMPLES);
    const falling = SLOPES[shape].short;
    for (let w = 0; w < SHORT_WINDOWS; w += 1) {
      SHORT.transform(spectrum.subarray(w * SHORT_SAMPLES, (w + 1) * SHORT_SAMPLES), window);
      const rising = w === 0 ? SLOPES[this.#shape].short : falling;
      const from = SHORT_FROM + w * SHORT_SAMPLES;
      for (let i = 0; i < SHORT_SAMPLES; i += 1) {
        block[from + i]! += window[i]! * rising[i]!;
        const at = SHORT_SAMPLES + i;
        block[from + at]! += window[at]! * falling[SHORT_SAMPLES - 1 - i]!;
      }
    }
  }
}
