import { FRAME_SAMPLES, SAMPLE_RATE_HZ } from '../format.ts';
import { powerOf } from '../level.ts';
import type { OpusCodec, OpusEncoder } from '../opus-codec.ts';
import { crossFade } from '../ramps.ts';

/** -50 dBFS: below this nobody hears what is left out. */
const QUIET_POWER = 1e-5;
const FADE_SAMPLES = 240;

/**
 * One mix as Opus. It may lag behind the mix by some samples, so that it joins on to what its listeners have heard before; it makes
 * up for them in the next quiet moment.
 */
export class OpusOutput {
  readonly name: string;
  #lateSamples = 0;
  /** The frame of the mix before the next one; kept while this is late. */
  readonly #last = new Float32Array(FRAME_SAMPLES);
  readonly #frame = new Float32Array(FRAME_SAMPLES);
  #encoder: OpusEncoder | undefined;
  #isClosed = false;

  /** Opening takes microseconds but is asynchronous; it is done before the next tick of the clock. */
  constructor(
    name: string,
    codec: Pick<OpusCodec, 'createEncoder'>,
    onFault: (fault: unknown) => void,
  ) {
    this.name = name;
    const open = async () => {
      const opened = await codec.createEncoder(SAMPLE_RATE_HZ);
      if (this.#isClosed) opened.close();
      else this.#encoder = opened;
    };
    open().catch(onFault);
  }

  get lateSamples(): number {
    return this.#lateSamples;
  }

  write(frame: Float32Array): Buffer | undefined {
    return this.#encoder?.encode(this.#lateSamples > 0 ? this.#delay(frame) : frame);
  }

  /** Continues from what listeners have heard: `last` is the frame before the next one of the mix, which they hear `lateSamples` late. */
  prime(last: Float32Array, lateSamples: number): void {
    this.#lateSamples = lateSamples;
    // The sound before that is not heard again: it only must not begin with a jump.
    for (let i = 0; i < lateSamples; i += 1) this.#last[FRAME_SAMPLES - 1 - i] = last[i]!;
    this.#encoder?.prime(lateSamples > 0 ? this.#delayed(last) : last);
  }

  close(): void {
    this.#isClosed = true;
    this.#encoder?.close();
    this.#encoder = undefined;
  }

  /** Returns a frame as late as this is, or in a quiet moment the frame itself. */
  #delay(frame: Float32Array): Float32Array {
    const rest = this.#last.subarray(FRAME_SAMPLES - this.#lateSamples);
    const isQuiet =
      powerOf(rest) < QUIET_POWER && powerOf(frame.subarray(0, FADE_SAMPLES)) < QUIET_POWER;
    const delayed = this.#delayed(frame);
    if (!isQuiet) return delayed;
    this.#lateSamples = 0;
    const whole = frame.slice();
    crossFade(whole.subarray(0, FADE_SAMPLES), delayed);
    return whole;
  }

  #delayed(frame: Float32Array): Float32Array {
    const late = this.#lateSamples;
    this.#frame.set(this.#last.subarray(FRAME_SAMPLES - late));
    this.#frame.set(frame.subarray(0, FRAME_SAMPLES - late), late);
    this.#last.set(frame);
    return this.#frame;
  }
}
