import type { StreamOverdraft } from '../audio/ingest/stream-budget.ts';
import { counters } from '../counters.ts';
import { PartylineError } from '../protocol/errors.ts';
import { errorMessage } from '../protocol/messages.ts';
import type { Overdraft } from './audio-budget.ts';
import type { ClientNotifier } from './client-notifier.ts';
import type { ReadControl } from './read-gate.ts';

/** Acts when a client exceeds its budget of binary messages: reads it more slowly, tells it, and closes it if it continues. */
export class AudioLimit {
  readonly #reading: ReadControl;
  readonly #client: ClientNotifier;
  /** Timer that runs while the client is not read. */
  #timer: NodeJS.Timeout | undefined;
  /** Time until which the client is not read, ms of `performance.now()`. */
  #pausedUntilMs = 0;
  /** True until the client is read again: the rest of the messages that had been read, perhaps thousands, is dropped unseen. */
  isRefusing = false;

  constructor(reading: ReadControl, client: ClientNotifier) {
    this.#reading = reading;
    this.#client = client;
  }

  /**
   * Acts on a message that the budget does not cover.
   * @returns true if it must be handled all the same
   */
  admit(overdraft: Overdraft): boolean {
    this.isRefusing = overdraft.isRefused;
    if (overdraft.isRefused) counters.dropped.too_fast += 1;
    if (overdraft.isLast) {
      this.#client.fail(
        rateLimited('The client keeps sending more than its audio format needs.', overdraft),
      );
      return false;
    }
    if (overdraft.isFirst) {
      const sentence = 'More bytes or messages than the format needs; they are read more slowly.';
      this.#client.notify(errorMessage(rateLimited(sentence, overdraft)));
    }
    this.#pause(overdraft.waitMs);
    return !overdraft.isRefused;
  }

  /** Acts on a recording or a change of format that the budget of a stream does not cover; it is read all the same. */
  slowDown({ waitMs, fault }: StreamOverdraft): void {
    this.isRefusing = true;
    if (fault) this.#client.notify(errorMessage(fault));
    this.#pause(waitMs);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #pause(ms: number): void {
    this.#reading.pause();
    // One message may exceed a budget hundreds of times, and others of its chunk follow: each adds
    // to the debt.
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, performance.now() + ms);
    this.#timer ??= setTimeout(() => this.#endPause(), ms);
  }

  /** Reads the client again, or waits for the rest of a pause that has become longer meanwhile. */
  #endPause(): void {
    this.#timer = undefined;
    const leftMs = this.#pausedUntilMs - performance.now();
    if (leftMs > 0) {
      this.#timer = setTimeout(() => this.#endPause(), leftMs);
      return;
    }
    this.isRefusing = false;
    this.#reading.resume();
  }
}

const rateLimited = (sentence: string, { retryAfterMs }: Overdraft) =>
  new PartylineError('rate_limited', sentence, { retryAfterMs });
