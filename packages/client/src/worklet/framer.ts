/** Rate at which audio is encoded, Hz. */
const RATE_HZ = 48_000;
/** Length of a packet, samples: 20 ms. */
const FRAME_SAMPLES = 960;

/** Cuts recorded sound into frames of 20 ms at 48 kHz, from whatever rate the microphone has. */
export class Framer {
  readonly #step: number;
  readonly #emit: (frame: Float32Array<ArrayBuffer>) => void;
  #frame = new Float32Array(FRAME_SAMPLES);
  #filled = 0;
  /**
   * Position of the next sample in the incoming block, in its samples; below 0 between the previous block and
   * this one.
   */
  #place = 0;
  #last = 0;

  constructor(rateHz: number, emit: (frame: Float32Array<ArrayBuffer>) => void) {
    this.#step = rateHz / RATE_HZ;
    this.#emit = emit;
  }

  push(block: Float32Array): void {
    while (this.#place < block.length - (this.#step === 1 ? 0 : 1)) {
      const index = Math.floor(this.#place);
      const share = this.#place - index;
      const before = index < 0 ? this.#last : block[index]!;
      this.#add(share === 0 ? before : before + (block[index + 1]! - before) * share);
      this.#place += this.#step;
    }
    this.#last = block.at(-1) ?? this.#last;
    this.#place -= block.length;
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
