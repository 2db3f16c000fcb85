import type { SampleFormat } from '../../format.ts';
import { frameBytesOf } from '../../samples.ts';
import { contentOf } from './content.ts';
import { type Detection, ratesOf, weigh } from './explanations.ts';
import { LEAST_DIFFERENCE, type PaceHistory } from './pace-history.ts';
import type { TimedMessage } from './pace.ts';
import { PaceWatch } from './pace-watch.ts';
import { MAX_WEIGHED_BYTES, soundOf } from './sounding-bytes.ts';

/** Numbers of channels that are tried. */
const CHANNELS = [1, 2];
/** Minimum confidence of another rate. */
const SURE = 0.9;

/** Detects that the rate of samples has changed, or was detected wrongly: by their pace, which the bytes must confirm. */
export class RateWatch {
  readonly #format: SampleFormat;
  readonly #pace: PaceWatch;
  /** Last messages, as many as are weighed. */
  #recent: TimedMessage[] = [];
  /** Total length of `#recent`, bytes. */
  #recentBytes = 0;

  /** @param history pace history of the sender, which is updated */
  constructor(format: SampleFormat, history: PaceHistory) {
    this.#format = format;
    const ofFormat = format.rateHz * format.channels;
    const ratios = ratesOf(format.codec)
      .flatMap((rateHz) => CHANNELS.map((channels) => (rateHz * channels) / ofFormat))
      .filter((ratio) => Math.abs(ratio - 1) > LEAST_DIFFERENCE);
    const bytesPerMs = (format.rateHz * frameBytesOf(format)) / 1000;
    this.#pace = new PaceWatch(bytesPerMs, [...new Set(ratios)], history);
  }

  /**
   * Adds a message.
   * @param startsAtBytes number of bytes of the stream before it
   * @param atMs time of its arrival
   * @returns the format with another rate, once the stream has changed to it
   */
  push(message: Buffer, startsAtBytes: number, atMs: number): Detection | undefined {
    this.#keep({ message, atMs });
    const pace = this.#pace.push(message.length, atMs);
    if (!pace) return undefined;
    const startOfRecent = startsAtBytes + message.length - this.#recentBytes;
    const content = contentOf(soundOf(this.#recent, startOfRecent));
    // Silence fits any rate.
    if (content.sound.length === 0) return undefined;
    const found = weigh({ arrivals: this.#recent, paced: this.#recent, pace, content });
    if (found && this.#isOfOtherRate(found)) return found;
    this.#pace.dismiss();
    return undefined;
  }

  #isOfOtherRate({ format, confidence }: Detection): boolean {
    if (format.codec !== this.#format.codec || confidence < SURE) return false;
    return 'rateHz' in format && format.rateHz !== this.#format.rateHz;
  }

  #keep(arrival: TimedMessage): void {
    this.#recent.push(arrival);
    this.#recentBytes += arrival.message.length;
    while (this.#recentBytes - this.#recent[0]!.message.length >= MAX_WEIGHED_BYTES) {
      this.#recentBytes -= this.#recent.shift()!.message.length;
    }
  }
}
