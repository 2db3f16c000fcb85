import type { JitterBuffer } from '../rtp/jitter-buffer.ts';
import type { OpusDecoder } from './opus-codec.ts';

/** A gap longer than this is not concealed but silent: libopus has faded out by then. */
const MAX_CONCEALED_SAMPLES = 2880;

/** One speaker's packets as a steady stream of samples: taken from the jitter buffer, decoded once, gaps concealed. */
export class Playout {
  readonly #buffer: JitterBuffer;
  readonly #decoder: OpusDecoder;
  #ready: Float32Array = new Float32Array(0);
  #lastDurationSamples = 0;
  #concealedInARow = 0;
  concealedSamples = 0;

  constructor(buffer: JitterBuffer, decoder: OpusDecoder) {
    this.#buffer = buffer;
    this.#decoder = decoder;
  }

  /**
   * Fills `frame` with the next samples of this speaker; what it does not fill, it leaves alone.
   * @returns whether there was anything to fill it with
   */
  pull(frame: Float32Array, nowMs: number): boolean {
    for (let filled = 0; filled < frame.length;) {
      if (this.#ready.length === 0 && !this.#decodeNext(frame.length - filled, nowMs)) {
        return filled > 0;
      }
      const count = Math.min(frame.length - filled, this.#ready.length);
      for (let i = 0; i < count; i += 1) frame[filled + i] = this.#ready[i]!;
      this.#ready = this.#ready.subarray(count);
      filled += count;
    }
    return true;
  }

  /** Forgets what is held; the next packet begins anew. */
  clear(): void {
    this.#buffer.clear();
    this.#ready = new Float32Array(0);
    this.#lastDurationSamples = 0;
    this.#concealedInARow = 0;
  }

  #decodeNext(neededSamples: number, nowMs: number): boolean {
    const next = this.#buffer.take(nowMs);
    if (next === 'lost') return this.#conceal(this.#lastDurationSamples);
    if (next === 'empty') return this.#lastDurationSamples > 0 && this.#conceal(neededSamples);
    try {
      this.#ready = this.#decoder.decode(next.payload);
    } catch {
      // A packet that libopus refuses is as good as lost.
      return this.#conceal(next.durationSamples);
    }
    this.#lastDurationSamples = next.durationSamples;
    this.#concealedInARow = 0;
    return true;
  }

  #conceal(samples: number): boolean {
    if (this.#concealedInARow + samples > MAX_CONCEALED_SAMPLES) {
      this.#lastDurationSamples = 0;
      return false;
    }
    this.#concealedInARow += samples;
    this.concealedSamples += samples;
    this.#ready = this.#decoder.conceal(Math.ceil(samples / 120) * 120);
    return true;
  }
}
