import { type AudioFormat, FRAME_SAMPLES } from './format.ts';
import { Limiter } from './limiter.ts';
import type { OpusCodec, OpusEncoder } from './opus-codec.ts';
import { writeS16le } from './pcm.ts';

/** What a mix needs to know of somebody who hears it. */
export type MixListener = { format: AudioFormat; deliver(frame: Buffer): void };

/**
 * One sum that somebody hears, made once for all who hear the same. It lives as long as anybody hears it, so that its
 * encoder and its limiter carry their state from frame to frame.
 */
export class Mix {
  readonly #codec: OpusCodec;
  readonly #onFault: (fault: unknown) => void;
  readonly #limiter = new Limiter();
  #encoder: OpusEncoder | 'opening' | undefined;
  #opusListeners: MixListener[] = [];
  #pcmListeners: MixListener[] = [];
  #closed = false;

  constructor(codec: OpusCodec, onFault: (fault: unknown) => void) {
    this.#codec = codec;
    this.#onFault = onFault;
  }

  add(listener: MixListener): void {
    if (listener.format.codec !== 'opus') {
      this.#pcmListeners.push(listener);
      return;
    }
    this.#opusListeners.push(listener);
    if (this.#encoder) return;
    this.#encoder = 'opening';
    this.#openEncoder().catch(this.#onFault);
  }

  removeListeners(): void {
    this.#opusListeners = [];
    this.#pcmListeners = [];
  }

  /**
   * Sends everybody one frame: `sum` less `own`.
   * @param sum 960 samples; left as it is
   */
  deliver(sum: Float32Array, own: Float32Array | undefined): void {
    const frame = sum.slice();
    if (own) for (let i = 0; i < FRAME_SAMPLES; i += 1) frame[i]! -= own[i]!;
    this.#limiter.process(frame);
    if (this.#pcmListeners.length > 0) {
      const bytes = writeS16le(frame);
      for (const listener of this.#pcmListeners) listener.deliver(bytes);
    }
    if (this.#opusListeners.length > 0 && typeof this.#encoder === 'object') {
      const packet = this.#encoder.encode(frame);
      for (const listener of this.#opusListeners) listener.deliver(packet);
    }
  }

  close(): void {
    this.#closed = true;
    if (typeof this.#encoder === 'object') this.#encoder.close();
    this.#encoder = undefined;
  }

  /** Opening takes microseconds but is asynchronous; it is done before the next tick of the clock. */
  async #openEncoder(): Promise<void> {
    const encoder = await this.#codec.createEncoder();
    if (this.#closed) encoder.close();
    else this.#encoder = encoder;
  }
}
