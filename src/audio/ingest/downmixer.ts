import { crossFade } from '../ramps.ts';
import { downmix } from '../samples.ts';

/** Length of the cross-fade from the second channel to the mean of both, samples: 5 ms at 48 kHz. */
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
    const mixed = downmix(samples, 2);
    let begin = 0;
    for (; begin < mixed.length && samples[2 * begin] === 0; begin += 1) {
      mixed[begin] = samples[2 * begin + 1]!;
      if (mixed[begin] !== 0) this.#hasSecondSounded = true;
    }
    if (begin === mixed.length) return mixed;
    this.#isFirstSilent = false;
    // A beginning of both is not faded.
    if (this.#hasSecondSounded) fadeFromSecond(mixed, samples, begin);
    return mixed;
  }
}

/** Cross-fades from the second channel to the mean of both, from the sample on with which the first begins. */
function fadeFromSecond(mean: Float32Array, samples: Float32Array, begin: number): void {
  const faded = mean.subarray(begin, begin + FADE_SAMPLES);
  crossFade(
    faded,
    faded.map((_, i) => samples[2 * (begin + i) + 1]!),
  );
}
