import { FRAME_SAMPLES } from '../format.ts';

/** Length of the blocks whose average levels are compared: the levels of single frames of a fan differ by more than 3 dB. */
const BLOCK_SAMPLES = 5 * FRAME_SAMPLES;
/** Sound that stays within 3 dB is steady; levels are told in whole dB, so that two may seem 1 dB further apart. */
const WITHIN_RATIO = 10 ** (4 / 10);
/** Noise is no louder than -35 dBov; a note that is held may be. */
const MOST_POWER = 10 ** (-34.5 / 10);
/** After 2 s it is steady; after 10 s, for which a note may be held, it is what is always to be heard of this speaker. */
const STEADY_BLOCKS = 20;
const FLOOR_BLOCKS = 100;
/** Power over the noise floor that is more than noise: at once, and over a block. */
const LOUDER_AT_ONCE = 10 ** (7 / 10);
const LOUDER = 10 ** (4 / 10);

/** Tells the noise of a fan, hiss or hum in what a speaker sends from speech, by its level alone. Pure. */
export class SteadyNoise {
  readonly #blocks: number[] = [];
  #steadyBlocks = 0;
  #floorPower = 0;
  #blockPower = 0;
  #blockSamples = 0;

  /** True once there has been nothing but steady noise for 2 s, until there is something else. */
  get isSteady(): boolean {
    return this.#steadyBlocks >= STEADY_BLOCKS;
  }

  /** Takes in what a packet of `samples` at 48 kHz holds; true if it is no more than noise that has lasted for 10 s. */
  isNoise(power: number, samples: number): boolean {
    this.#blockPower += power * samples;
    this.#blockSamples += samples;
    const meanPower = this.#blockPower / this.#blockSamples;
    if (this.#blockSamples >= BLOCK_SAMPLES) {
      this.#addBlock(meanPower);
      this.#blockPower = 0;
      this.#blockSamples = 0;
    }
    return power < LOUDER_AT_ONCE * this.#floorPower && meanPower < LOUDER * this.#floorPower;
  }

  #addBlock(power: number): void {
    this.#blocks.push(power);
    if (this.#blocks.length > STEADY_BLOCKS) this.#blocks.shift();
    const least = Math.min(...this.#blocks);
    const most = Math.max(...this.#blocks);
    if (most > least * WITHIN_RATIO || most > MOST_POWER) {
      this.#steadyBlocks = Math.min(this.#steadyBlocks, this.#stillSteady(power));
      return;
    }
    this.#steadyBlocks = Math.max(this.#steadyBlocks + 1, this.#blocks.length);
    const isLower = this.isSteady && most < this.#floorPower;
    if (isLower || this.#steadyBlocks >= FLOOR_BLOCKS) this.#floorPower = most;
  }

  /** How many of the last blocks, with this one, are alike. */
  #stillSteady(power: number): number {
    let [least, most, count] = [power, power, 0];
    for (const block of this.#blocks.toReversed()) {
      [least, most] = [Math.min(least, block), Math.max(most, block)];
      if (most > least * WITHIN_RATIO || most > MOST_POWER) break;
      count += 1;
    }
    return count;
  }
}
