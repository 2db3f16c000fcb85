import { crossFade } from '../ramps.ts';
import { downmix } from '../samples.ts';

/** Length of the cross-fade from the second channel to the mean of both, samples. */
const FADE_SAMPLES = 240;

/**
 * Mixes interleaved channels down to one. The second of two channels is taken whole as long as the first has been digitally silent
 * since the beginning: 32-bit samples of one channel whose lower 16 bits are zero have the same bytes as such 16-bit samples.
 */
export class Downmixer {
  readonly #channels: number;
  #isFirstSilent: boolean;
  /** True if the second channel has sounded while the first was silent. */
  #hasSecondSounded = false;

  constructor(channels: number) {
    this.#channels = channels;
    this.#isFirstSilent = channels === 2;
  }

  /** Returns the next samples of one channel. */
  process(samples: Float32Array): Float32Array {
    if (!this.#isFirstSilent) return downmix(samples, this.#channels);
    const second = new Float32Array(samples.length / 2);
    for (let i = 0; i < second.length; i += 1) {
      if (samples[2 * i] !== 0) this.#isFirstSilent = false;
      second[i] = samples[2 * i + 1]!;
    }
    if (this.#isFirstSilent) {
      this.#hasSecondSounded ||= second.some((sample) => sample !== 0);
      return second;
    }
    const mean = downmix(samples, 2);
    // A beginning of both is not faded.
    if (this.#hasSecondSounded) crossFade(mean.subarray(0, FADE_SAMPLES), second);
    return mean;
  }
}
