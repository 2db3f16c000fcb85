import { counts } from '../counts.ts';
import { PartylineError } from '../protocol/errors.ts';
import { errorMessage, type ServerMessage } from '../protocol/messages.ts';
import type { AudioBudget, Overdraft } from './audio-budget.ts';
import type { Reading } from './read-gate.ts';

type Outlet = { notify(message: ServerMessage): void; fail(fault: unknown): void };

/** Keeps one client within its budget of binary messages: reads it more slowly, tells it, and gives it up when it goes on. */
export class AudioLimit {
  readonly #budget: AudioBudget;
  readonly #reading: Reading;
  readonly #outlet: Outlet;
  /** Runs while the client is not read. */
  #timer: NodeJS.Timeout | undefined;
  #isRefusing = false;

  constructor(budget: AudioBudget, reading: Reading, outlet: Outlet) {
    this.#budget = budget;
    this.#reading = reading;
    this.#outlet = outlet;
  }

  /**
   * Charges a message before anything is done with it.
   * @returns whether it is to be looked at
   */
  admit(bytes: number, bytesPerSecond: number, nowMs: number): boolean {
    // The rest of what had been read already, thousands of messages perhaps, costs next to nothing.
    if (this.#isRefusing && this.#timer) {
      counts.dropped.too_fast += 1;
      return false;
    }
    const overdraft = this.#budget.charge(bytes, bytesPerSecond, nowMs);
    this.#isRefusing = overdraft?.isRefused ?? false;
    if (!overdraft) return true;
    if (overdraft.isRefused) counts.dropped.too_fast += 1;
    if (overdraft.isLast) {
      this.#outlet.fail(
        rateLimited('The client goes on sending more than any sound needs.', overdraft),
      );
      return false;
    }
    if (overdraft.isFirst) {
      const sentence = 'More bytes or messages than the format needs; they are read more slowly.';
      this.#outlet.notify(errorMessage(rateLimited(sentence, overdraft)));
    }
    this.#pause(overdraft.waitMs);
    return !overdraft.isRefused;
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #pause(ms: number): void {
    this.#reading.pause();
    // The first of a chunk says when; what has been read with it adds to the debt, which is looked at again then.
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#reading.resume();
    }, ms);
  }
}

const rateLimited = (sentence: string, { retryAfterMs }: Overdraft) =>
  new PartylineError('rate_limited', sentence, { retryAfterMs });
