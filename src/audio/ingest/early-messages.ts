import { counters } from '../../counters.ts';
import { MAX_HELD_BYTES, MAX_HELD_MESSAGES } from './detection/detector.ts';
import type { TimedMessage } from './detection/pace.ts';

/** Age from which a message is not relayed any more, ms. */
const MAX_AGE_MS = 30_000;

/** Returns a copy of a message, which would otherwise keep in memory all that was read with it. */
function copyOf(message: Buffer): Buffer {
  // A copy from the pool of Node would keep the pool.
  const copy = Buffer.allocUnsafeSlow(message.length);
  message.copy(copy);
  return copy;
}

/**
 * Messages of an undeclared client from before its last pause, which were too few for a detection. They are too late to be played, and
 * say nothing about what follows the pause, but are relayed if its format turns out to be unknown.
 */
export class EarlyMessages {
  #messages: TimedMessage[] = [];
  #bytes = 0;

  /** Adds the messages of a detection that a pause has ended; drops the oldest beyond the limits of a detection, and those that are too old. */
  add(messages: readonly TimedMessage[], nowMs: number): void {
    for (const { message, atMs } of messages) {
      this.#messages.push({ message: copyOf(message), atMs });
      this.#bytes += message.length;
    }
    while (this.#bytes > MAX_HELD_BYTES || this.#messages.length > MAX_HELD_MESSAGES) {
      this.#dropOldest();
    }
    this.#expire(nowMs);
  }

  /** Returns the messages that are not too old, in order, and keeps none. */
  take(nowMs: number): TimedMessage[] {
    this.#expire(nowMs);
    const messages = this.#messages;
    this.#messages = [];
    this.#bytes = 0;
    return messages;
  }

  /** Drops the messages: they are not to be relayed. */
  drop(): void {
    while (this.#messages.length > 0) this.#dropOldest();
  }

  #expire(nowMs: number): void {
    while (this.#messages[0] && nowMs - this.#messages[0].atMs > MAX_AGE_MS) this.#dropOldest();
  }

  #dropOldest(): void {
    this.#bytes -= this.#messages.shift()!.message.length;
    counters.dropped.late += 1;
  }
}
