import { FRAME_SAMPLES, SAMPLE_RATE_HZ } from '../format.ts';
import { powerOf, QUIET_POWER } from '../level.ts';
import type { OpusCodec, OpusEncoder } from '../opus-codec.ts';
import { crossFade } from '../ramps.ts';

const FADE_SAMPLES = 240;

/**
 * Opus output of one mix. It may lag behind the mix by some samples, so that it continues from the audio that its listeners have heard
 * before; it omits these samples in the next quiet moment.
 */
export class OpusOutput {
  readonly name: string;
  #lateSamples = 0;
  /** Previous frame of the mix; kept while the output is late. */
  readonly #last = new Float32Array(FRAME_SAMPLES);
  readonly #frame = new Float32Array(FRAME_SAMPLES);
  #encoder: OpusEncoder | undefined;
  #isClosed = false;

  /** Opens the encoder: asynchronously, but within microseconds, before the next tick of the clock. */
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

  /** True once the encoder is open: before, nothing can be primed or written. */
  get isOpen(): boolean {
    return this.#encoder !== undefined;
  }

  get lateSamples(): number {
    return this.#lateSamples;
  }

  write(frame: Float32Array): Buffer | undefined {
    return this.#encoder?.encode(this.#lateSamples > 0 ? this.#delay(frame) : frame);
  }

  /** Continues from the audio that listeners have heard: `last` is the previous frame of the mix, which they hear `lateSamples` late. */
  prime(last: Float32Array, lateSamples: number): void {
    this.#lateSamples = lateSamples;
    // The audio before `last` is not heard again: it must only not begin with a jump.
    for (let i = 0; i < lateSamples; i += 1) this.#last[FRAME_SAMPLES - 1 - i] = last[i]!;
    this.#encoder?.prime(lateSamples > 0 ? this.#delayed(last) : last);
  }

  /** Makes the next packet independent of those before it, for listeners that have not heard them. */
  beginAnew(): void {
    this.#encoder?.beginAnew();
  }

  close(): void {
    this.#isClosed = true;
    this.#encoder?.close();
    this.#encoder = undefined;
  }

  /** Returns a frame delayed by the lag of this output, or in a quiet moment the frame itself, without the lag. */
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
