/** Rate at which audio is encoded, Hz. */
const RATE_HZ = 48_000;
/** Length of a frame, samples: 20 ms. */
const FRAME_SAMPLES = 960;
/** Number of zero crossings of the filter on each side of its middle. */
const CROSSINGS = 8;

/**
 * Resamples recorded sound from the rate of the microphone to 48 kHz, and cuts it into frames of 20 ms. Each output sample is the sum of
 * the input samples around it, weighted by a sinc function with a Hann window, whose cutoff is half the lower rate.
 */
export class Framer {
  readonly #emit: (frame: Float32Array<ArrayBuffer>) => void;
  /** Number of places between two input samples at which output samples may be. */
  readonly #places: number;
  /** Distance between two output samples, in places. */
  readonly #step: number;
  /** Cutoff as a share of half the input rate. */
  readonly #cutoff: number;
  /** Number of input samples on each side of an output sample that count. */
  readonly #reach: number;
  /** Weights of these input samples, by place. */
  readonly #weights: Float32Array[] = [];
  /** Last input samples, which count for later output samples. */
  #kept: Float32Array;
  /** Place of the next output sample, from the first of the kept samples on. */
  #position: number;
  #frame = new Float32Array(FRAME_SAMPLES);
  #filled = 0;

  constructor(rateHz: number, emit: (frame: Float32Array<ArrayBuffer>) => void) {
    const common = greatestDivisor(rateHz, RATE_HZ);
    this.#emit = emit;
    this.#places = RATE_HZ / common;
    this.#step = rateHz / common;
    this.#cutoff = Math.min(1, RATE_HZ / rateHz);
    this.#reach = Math.ceil(CROSSINGS / this.#cutoff);
    this.#kept = new Float32Array(this.#reach - 1);
    this.#position = this.#kept.length * this.#places;
  }

  push(block: Float32Array): void {
    if (this.#step === this.#places) {
      for (const sample of block) this.#add(sample);
      return;
    }
    const input = new Float32Array(this.#kept.length + block.length);
    input.set(this.#kept);
    input.set(block, this.#kept.length);
    const count = 2 * this.#reach;
    for (;;) {
      const first = Math.floor(this.#position / this.#places) - this.#reach + 1;
      if (first + count > input.length) {
        this.#kept = input.slice(first);
        this.#position -= first * this.#places;
        return;
      }
      const weights = this.#weightsAt(this.#position % this.#places);
      let sum = 0;
      for (let i = 0; i < count; i += 1) sum += input[first + i]! * weights[i]!;
      this.#add(sum);
      this.#position += this.#step;
    }
  }

  #weightsAt(place: number): Float32Array {
    return (this.#weights[place] ??= this.#computeWeights(place));
  }

  #computeWeights(place: number): Float32Array {
    const weights = Float32Array.from({ length: 2 * this.#reach }, (_, i) => {
      const distance = i - this.#reach + 1 - place / this.#places;
      const window = 0.5 + 0.5 * Math.cos((Math.PI * distance) / this.#reach);
      return sinc(distance * this.#cutoff) * window;
    });
    const sum = weights.reduce((total, weight) => total + weight);
    return weights.map((weight) => weight / sum);
  }

  #add(sample: number): void {
    this.#frame[this.#filled] = sample;
    this.#filled += 1;
    if (this.#filled < FRAME_SAMPLES) return;
    this.#emit(this.#frame);
    this.#frame = new Float32Array(FRAME_SAMPLES);
    this.#filled = 0;
  }
}

const sinc = (x: number) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

const greatestDivisor = (a: number, b: number): number => (b === 0 ? a : greatestDivisor(b, a % b));
