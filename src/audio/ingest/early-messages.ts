import { counters } from '../../counters.ts';
import { areUnknownAtAnyPace } from './detection/any-pace.ts';
import {
  type FormatDetector,
  MAX_HELD_BYTES,
  MAX_HELD_MESSAGES,
  type WeighingTurns,
} from './detection/detector.ts';
import type { TimedMessage } from './detection/pace.ts';

/** Minimum number of pauses after which the messages are weighed: one message of another kind may come before the first sound. */
const LEAST_PAUSES = 2;
/** Minimum number of bytes that are weighed: a detection after a pause has the pace as evidence, too. */
const LEAST_BYTES = 1024;
/** Ratio of the number of bytes to that of the last time from which the messages are weighed again. */
const LEAST_GROWTH = 1.5;

/**
 * Messages of an undeclared client from before its last pause, which were too few for a detection. They are too late to be played, and
 * say nothing about the pace after the pause, but are relayed if the format turns out to be unknown.
 */
export class EarlyMessages {
  readonly #turns: WeighingTurns;
  #messages: TimedMessage[] = [];
  #bytes = 0;
  /** Number of bytes of the stream before the messages. */
  #startsAtBytes = 0;
  #pauses = 0;
  /** Number of bytes from which the messages are weighed next. */
  #leastBytes = LEAST_BYTES;

  constructor(turns: WeighingTurns) {
    this.#turns = turns;
  }

  get messages(): readonly TimedMessage[] {
    return this.#messages;
  }

  /** Adds the messages of a detection that a pause has ended; drops the oldest beyond the limits of a detection. */
  add({ arrivals, startsAtBytes }: FormatDetector): void {
    if (this.#messages.length === 0) this.#startsAtBytes = startsAtBytes;
    for (const arrival of arrivals) {
      this.#messages.push(arrival);
      this.#bytes += arrival.message.length;
    }
    this.#pauses += 1;
    while (this.#bytes > MAX_HELD_BYTES || this.#messages.length > MAX_HELD_MESSAGES) {
      const { length } = this.#messages.shift()!.message;
      this.#bytes -= length;
      this.#startsAtBytes += length;
      counters.dropped.late += 1;
    }
  }

  /** True if the messages are most likely of an unknown format. */
  areUnknown(nowMs: number): boolean {
    if (this.#pauses < LEAST_PAUSES || this.#bytes < this.#leastBytes) return false;
    if (!this.#turns.take(nowMs)) return false;
    this.#leastBytes = LEAST_GROWTH * this.#bytes;
    return areUnknownAtAnyPace(
      this.#messages.map(({ message }) => message),
      this.#startsAtBytes,
    );
  }

  /** Returns the messages, in order, and keeps none of them. */
  take(): TimedMessage[] {
    const messages = this.#messages;
    this.#messages = [];
    this.#bytes = 0;
    this.#pauses = 0;
    this.#leastBytes = LEAST_BYTES;
    return messages;
  }

  /** Drops the messages: their format is known. */
  drop(): void {
    counters.dropped.late += this.take().length;
  }
}
