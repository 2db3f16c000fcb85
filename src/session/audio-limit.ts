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
  slowDown({ waitMs, isFirst, fault }: StreamOverdraft): void {
    this.isRefusing = true;
    if (isFirst) this.#client.notify(errorMessage(fault));
    this.#pause(waitMs);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #pause(ms: number): void {
    this.#reading.pause();
    // The first message over the budget sets the timer. Further messages of the same chunk add to
    // the debt, which is checked again when the timer ends.
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.isRefusing = false;
      this.#reading.resume();
    }, ms);
  }
}

const rateLimited = (sentence: string, { retryAfterMs }: Overdraft) =>
  new PartylineError('rate_limited', sentence, { retryAfterMs });
