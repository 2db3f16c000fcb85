import { FRAME_MS } from '../format.ts';
import { powerOf } from '../level.ts';

/** Minimum ratio of the power of recent speech to that of a pause: 20 dB. */
const SOFTER_BY = 10 ** (20 / 10);
/** Power below which audio is a pause: -58 dBov. */
const PAUSE_POWER = 10 ** (-58 / 10);
/** Minimum number of consecutive soft frames of a pause; fewer may be the closure before a plosive. */
const LEAST_FRAMES = 5;
/** Interval, in frames, at which a continuing pause is reported again. */
const AGAIN_FRAMES = 10;
/** Half-life of the remembered power of loud audio, ms. */
const HALF_LIFE_MS = 1500;
const DECAY = 0.5 ** (FRAME_MS / HALF_LIFE_MS);

/** Finds pauses in the speech of a speaker, also those between two words. */
export class PauseFinder {
  #loudestPower = 0;
  #softFrames = 0;
  /** True once a word was spoken: soft audio before the first word is not a pause. */
  #hasSpoken: boolean;
  readonly #leastFrames: number;

  /**
   * @param hasSpoken true if soft audio before the first word is a pause, too
   * @param leastFrames number of consecutive soft frames that are a pause
   */
  constructor(hasSpoken = false, leastFrames = LEAST_FRAMES) {
    this.#hasSpoken = hasSpoken;
    this.#leastFrames = leastFrames;
  }

  /** Returns whether `sound` is as soft as a pause, relative to the preceding speech. */
  isSoft(sound: Float32Array): boolean {
    return this.#isSoft(powerOf(sound));
  }

  #isSoft(power: number): boolean {
    return power < PAUSE_POWER || power * SOFTER_BY < this.#loudestPower;
  }

  /** True for the frame that completes a pause, and every 10 frames while the pause continues. */
  get isFound(): boolean {
    const since = this.#softFrames - this.#leastFrames;
    return since >= 0 && since % AGAIN_FRAMES === 0;
  }

  /** Processes the next frame. */
  note(frame: Float32Array): void {
    const power = powerOf(frame);
    this.#hasSpoken ||= power > PAUSE_POWER;
    this.#loudestPower = Math.max(power, this.#loudestPower * DECAY);
    this.#softFrames = this.#hasSpoken && this.#isSoft(power) ? this.#softFrames + 1 : 0;
  }
}
