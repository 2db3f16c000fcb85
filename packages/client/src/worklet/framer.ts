/** Rate at which audio is encoded, Hz. */
const RATE_HZ = 48_000;
/** Length of a frame, samples: 20 ms. */
const FRAME_SAMPLES = 960;

/** Resamples recorded sound from the rate of the microphone to 48 kHz, and cuts it into frames of 20 ms. */
export class Framer {
  /** Distance between two output samples, in samples of the input. */
  readonly #step: number;
  readonly #emit: (frame: Float32Array<ArrayBuffer>) => void;
  #frame = new Float32Array(FRAME_SAMPLES);
  #filled = 0;
  /** Position at which the next sample is taken from the current block, in samples of it; below 0 before its first sample. */
  #position = 0;
  /** Last sample of the previous block. */
  #last = 0;

  constructor(rateHz: number, emit: (frame: Float32Array<ArrayBuffer>) => void) {
    this.#step = rateHz / RATE_HZ;
    this.#emit = emit;
  }

  push(block: Float32Array): void {
    while (this.#position < block.length - (this.#step === 1 ? 0 : 1)) {
      const index = Math.floor(this.#position);
      const share = this.#position - index;
      const before = index < 0 ? this.#last : block[index]!;
      this.#add(share === 0 ? before : before + (block[index + 1]! - before) * share);
      this.#position += this.#step;
    }
    this.#last = block.at(-1) ?? this.#last;
    this.#position -= block.length;
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
