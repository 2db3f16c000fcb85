import type { Codecs } from './codecs.ts';
import {
  type AudioFormat,
  formatAudioFormat,
  FRAME_SAMPLES,
  SAMPLE_RATE_HZ,
  type SampleFormat,
} from './format.ts';
import { Limiter } from './limiter.ts';
import type { OpusEncoder } from './opus-codec.ts';
import type { Resampler } from './resampler.ts';
import { upmix, writeSamples } from './samples.ts';

/** What a mix needs to know of somebody who hears it. */
export type MixListener = { format: AudioFormat; deliver(frame: Buffer): void };

/** Those who hear a mix in one format of samples; the resampler carries its state from frame to frame. */
type SampleOutput = {
  format: SampleFormat;
  resampler: Resampler | undefined;
  listeners: MixListener[];
};

/**
 * One sum that somebody hears, made once for all who hear the same, and turned once into each format in which they hear
 * it. It lives as long as anybody hears it, so that its encoder, limiter and resamplers carry their state.
 */
export class Mix {
  readonly #codecs: Codecs;
  readonly #onFault: (fault: unknown) => void;
  readonly #limiter = new Limiter();
  #encoder: OpusEncoder | 'opening' | undefined;
  #opusListeners: MixListener[] = [];
  readonly #sampleOutputs = new Map<string, SampleOutput>();
  #closed = false;

  constructor(codecs: Codecs, onFault: (fault: unknown) => void) {
    this.#codecs = codecs;
    this.#onFault = onFault;
  }

  add(listener: MixListener): void {
    const { format } = listener;
    if (format.codec === 'opus') {
      this.#opusListeners.push(listener);
      if (this.#encoder) return;
      this.#encoder = 'opening';
      this.#openEncoder().catch(this.#onFault);
      return;
    }
    const name = formatAudioFormat(format);
    let output = this.#sampleOutputs.get(name);
    if (!output) {
      output = { format, resampler: this.#openResampler(format.rateHz), listeners: [] };
      this.#sampleOutputs.set(name, output);
    }
    output.listeners.push(listener);
  }

  removeListeners(): void {
    this.#opusListeners = [];
    for (const output of this.#sampleOutputs.values()) output.listeners = [];
  }

  /**
   * Sends everybody one frame: `sum` less `own`.
   * @param sum 960 samples; left as it is
   */
  deliver(sum: Float32Array, own: Float32Array | undefined): void {
    const frame = sum.slice();
    if (own) for (let i = 0; i < FRAME_SAMPLES; i += 1) frame[i]! -= own[i]!;
    this.#limiter.process(frame);
    for (const output of this.#sampleOutputs.values()) {
      if (output.listeners.length === 0) continue;
      const { codec, channels } = output.format;
      const samples = output.resampler ? output.resampler.process(frame) : frame;
      const bytes = writeSamples(upmix(samples, channels), codec);
      for (const listener of output.listeners) listener.deliver(bytes);
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
    for (const { resampler } of this.#sampleOutputs.values()) resampler?.close();
    this.#sampleOutputs.clear();
  }

  #openResampler(rateHz: number): Resampler | undefined {
    return rateHz === SAMPLE_RATE_HZ
      ? undefined
      : this.#codecs.openResampler(SAMPLE_RATE_HZ, rateHz);
  }

  /** Opening takes microseconds but is asynchronous; it is done before the next tick of the clock. */
  async #openEncoder(): Promise<void> {
    const encoder = await this.#codecs.opus.createEncoder(SAMPLE_RATE_HZ);
    if (this.#closed) encoder.close();
    else this.#encoder = encoder;
  }
}
