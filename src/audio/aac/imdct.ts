/** Inverse modified discrete cosine transform of AAC (ISO/IEC 14496-3, 4.6.11.3.1), by a fast Fourier transform of a quarter of its length. */
export class Imdct {
  readonly #lines: number;
  readonly #points: number;
  /** Factors by which the points are rotated before the Fourier transform, and after it. */
  readonly #turnRe: Float64Array;
  readonly #turnIm: Float64Array;
  readonly #rootRe: Float64Array;
  readonly #rootIm: Float64Array;
  readonly #reversed: Uint16Array;
  readonly #re: Float64Array;
  readonly #im: Float64Array;
  readonly #cosines: Float64Array;

  /** @param lines number of lines of the spectrum, a power of two; the transform has twice as many samples */
  constructor(lines: number) {
    const points = lines / 2;
    this.#lines = lines;
    this.#points = points;
    const turn = (i: number) => (-Math.PI * (i + 0.125)) / lines;
    this.#turnRe = Float64Array.from({ length: points }, (_, i) => Math.cos(turn(i)));
    this.#turnIm = Float64Array.from({ length: points }, (_, i) => Math.sin(turn(i)));
    const root = (i: number) => (-2 * Math.PI * i) / points;
    this.#rootRe = Float64Array.from({ length: points / 2 }, (_, i) => Math.cos(root(i)));
    this.#rootIm = Float64Array.from({ length: points / 2 }, (_, i) => Math.sin(root(i)));
    const bits = Math.log2(points);
    this.#reversed = Uint16Array.from({ length: points }, (_, i) => reverse(i, bits));
    this.#re = new Float64Array(points);
    this.#im = new Float64Array(points);
    this.#cosines = new Float64Array(lines);
  }

  /** @param to receives the samples, not windowed yet */
  transform(spectrum: Float32Array, to: Float32Array): void {
    const [lines, half] = [this.#lines, this.#points];
    const cosines = this.#cosines;
    this.#transformCosines(spectrum);
    for (let i = 0; i < half; i += 1) {
      to[i] = cosines[half + i]!;
      to[half + i] = -cosines[lines - 1 - i]!;
      to[lines + i] = -cosines[half - 1 - i]!;
      to[lines + half + i] = -cosines[i]!;
    }
  }

  /** Computes the discrete cosine transform of type IV, scaled by 2 / lines. */
  #transformCosines(spectrum: Float32Array): void {
    const [lines, points] = [this.#lines, this.#points];
    const [re, im, turnRe, turnIm] = [this.#re, this.#im, this.#turnRe, this.#turnIm];
    for (let i = 0; i < points; i += 1) {
      const [a, b] = [spectrum[2 * i]!, spectrum[lines - 1 - 2 * i]!];
      const at = this.#reversed[i]!;
      re[at] = a * turnRe[i]! - b * turnIm[i]!;
      im[at] = a * turnIm[i]! + b * turnRe[i]!;
    }
    this.#transformFourier();
    const scale = 1 / lines;
    for (let i = 0; i < points; i += 1) {
      this.#cosines[2 * i] = scale * (re[i]! * turnRe[i]! - im[i]! * turnIm[i]!);
      this.#cosines[lines - 1 - 2 * i] = -scale * (re[i]! * turnIm[i]! + im[i]! * turnRe[i]!);
    }
  }

  /** Transforms points that are in bit-reversed order. */
  #transformFourier(): void {
    const [points, re, im] = [this.#points, this.#re, this.#im];
    for (let size = 1; size < points; size *= 2) {
      const step = points / (2 * size);
      for (let k = 0; k < size; k += 1) {
        const [cos, sin] = [this.#rootRe[k * step]!, this.#rootIm[k * step]!];
        for (let i = k; i < points; i += 2 * size) {
          const j = i + size;
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
}

function reverse(value: number, bits: number): number {
  let reversed = 0;
  for (let bit = 0; bit < bits; bit += 1) reversed |= ((value >> bit) & 1) << (bits - 1 - bit);
  return reversed;
}
