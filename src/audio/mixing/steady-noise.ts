import { FRAME_SAMPLES } from '../format.ts';

/** Length of the blocks whose average levels are compared: the levels of single frames of a fan differ by more than 3 dB. */
const BLOCK_SAMPLES = 5 * FRAME_SAMPLES;
/** Maximum ratio of levels of steady sound: 3 dB, and 1 dB more because levels are stated in whole dB. */
const WITHIN_RATIO = 10 ** (4 / 10);
/** Maximum power of noise: about -35 dBov. A held note may be louder. */
const MOST_POWER = 10 ** (-34.5 / 10);
/** Number of alike blocks after which sound is steady (2 s), and is the noise floor of the speaker (10 s: longer than a note is held). */
const STEADY_BLOCKS = 20;
const FLOOR_BLOCKS = 100;
/** Ratio to the noise floor above which sound is more than noise: of one packet, and of a block. */
const LOUDER_AT_ONCE = 10 ** (7 / 10);
const LOUDER = 10 ** (4 / 10);

/** Distinguishes the noise of a fan, hiss or hum from speech, by the level of the sound alone. Pure. */
export class SteadyNoise {
  readonly #blocks: number[] = [];
  #steadyBlocks = 0;
  #floorPower = 0;
  #blockPower = 0;
  #blockSamples = 0;

  /** True after 2 s of nothing but steady noise, until another sound. */
  get isSteady(): boolean {
    return this.#steadyBlocks >= STEADY_BLOCKS;
  }

  /** Processes a packet of `samples` samples at 48 kHz; returns true if it is no more than noise that has lasted for 10 s. */
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
    let least = power;
    let most = power;
    for (const block of this.#blocks) {
      if (block < least) least = block;
      if (block > most) most = block;
    }
    if (most > least * WITHIN_RATIO || most > MOST_POWER) {
      this.#steadyBlocks = Math.min(this.#steadyBlocks, this.#stillSteady(power));
      return;
    }
    this.#steadyBlocks = Math.max(this.#steadyBlocks + 1, this.#blocks.length);
    const isLower = this.isSteady && most < this.#floorPower;
    if (isLower || this.#steadyBlocks >= FLOOR_BLOCKS) this.#floorPower = most;
  }

  /** Returns the number of consecutive last blocks, including this one, that are alike. */
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
