const BLOCK_FRAMES = 5;

/** Mean power of recent audio, in blocks of 100 ms. */
export class RecentPower {
  readonly #blocks: { power: number; frames: number }[] = [];
  readonly #maxBlocks: number;

  constructor(maxBlocks: number) {
    this.#maxBlocks = maxBlocks;
  }

  /** Adds the mean power of `frames` frames of 20 ms. */
  add(power: number, frames: number): void {
    let last = this.#blocks.at(-1);
    if (!last || last.frames >= BLOCK_FRAMES) {
      last = { power: 0, frames: 0 };
      this.#blocks.push(last);
      if (this.#blocks.length > this.#maxBlocks) this.#blocks.shift();
    }
    last.frames += frames;
    last.power += ((power - last.power) * frames) / last.frames;
  }

  /** Returns the mean power of the last `blocks` blocks, the last of which may be incomplete; 0 if there are none. */
  meanOf(blocks: number): number {
    let power = 0;
    let frames = 0;
    for (let i = Math.max(0, this.#blocks.length - blocks); i < this.#blocks.length; i += 1) {
      const block = this.#blocks[i]!;
      power += block.power * block.frames;
      frames += block.frames;
    }
    return frames > 0 ? power / frames : 0;
  }
}
