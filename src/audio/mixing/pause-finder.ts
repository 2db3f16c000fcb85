import { FRAME_MS } from '../format.ts';
import { powerOf } from '../level.ts';

/** Least ratio of the power of recent speech to that of a pause. */
const SOFTER_BY = 10 ** (20 / 10);
/** Power below which audio is a pause: -58 dBov. */
const PAUSE_POWER = 10 ** (-58 / 10);
/** Number of soft frames in a row that are no longer the closure before a plosive. */
const LEAST_FRAMES = 5;
/** Interval, in frames, at which a pause that goes on is reported again. */
const AGAIN_FRAMES = 10;
/** Time in which the memory of loud audio halves, ms. */
const HALF_LIFE_MS = 1500;
const DECAY = 0.5 ** (FRAME_MS / HALF_LIFE_MS);

/** Finds the pauses in what a speaker says, if only between two words. */
export class PauseFinder {
  #loudestPower = 0;
  #softFrames = 0;
  /** Soft audio before the first word is no pause after it. */
  #hasSpoken: boolean;
  readonly #leastFrames: number;

  /**
   * @param hasSpoken true if soft audio is a pause also before the first word
   * @param leastFrames number of soft frames in a row that are a pause
   */
  constructor(hasSpoken = false, leastFrames = LEAST_FRAMES) {
    this.#hasSpoken = hasSpoken;
    this.#leastFrames = leastFrames;
  }

  /** Returns whether `sound` is as soft as a pause after what was said. */
  isSoft(sound: Float32Array): boolean {
    return this.#isSoft(powerOf(sound));
  }

  #isSoft(power: number): boolean {
    return power < PAUSE_POWER || power * SOFTER_BY < this.#loudestPower;
  }

  /** True for a frame with which a pause has become one, and now and then while it goes on. */
  get isFound(): boolean {
    const since = this.#softFrames - this.#leastFrames;
    return since >= 0 && since % AGAIN_FRAMES === 0;
  }

  /** Takes note of the next frame. */
  note(frame: Float32Array): void {
    const power = powerOf(frame);
    this.#hasSpoken ||= power > PAUSE_POWER;
    this.#loudestPower = Math.max(power, this.#loudestPower * DECAY);
    this.#softFrames = this.#hasSpoken && this.#isSoft(power) ? this.#softFrames + 1 : 0;
  }
}
