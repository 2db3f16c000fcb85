import type { Timings } from '../config/timings.ts';
import type { Head, WebhookOutbox } from '../src/webhooks/webhook-outbox.ts';

export type RemovalParts = {
  outbox: Pick<WebhookOutbox, 'remove'>;
  timings: Pick<Timings['webhooks'], 'retryAfterMs'>;
  onFault: (fault: Error) => void;
};

/**
 * Removes events of one account from the outbox once they were accepted. While Redis refuses writes, they stay the first events of
 * their rooms: they are remembered here, so that they are not sent again, and removed later.
 */
export class Removals {
  readonly #accountId: number;
  readonly #parts: RemovalParts;
  /** Accepted events that are still in the outbox, by room. */
  readonly #waiting = new Map<string, Head>();
  #retryAtMs = 0;

  constructor(accountId: number, parts: RemovalParts) {
    this.#accountId = accountId;
    this.#parts = parts;
  }

  /** Number of rooms whose first event waits for its removal. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Time of the next attempt by `performance.now()`; Infinity if no event waits. */
  get retryAtMs(): number {
    return this.#waiting.size === 0 ? Infinity : this.#retryAtMs;
  }

  /** True if the first event of a room was accepted, and waits for its removal. */
  has(room: string): boolean {
    return this.#waiting.has(room);
  }

  /** Removes an accepted event, now or later. */
  async add(head: Head): Promise<void> {
    if (!(await this.#isRemoved(head))) this.#waiting.set(head.room, head);
  }

  /** Removes the events that wait, if an attempt is due. */
  async retry(): Promise<void> {
    if (performance.now() < this.#retryAtMs) return;
    for (const head of this.#waiting.values()) {
      if (!(await this.#isRemoved(head))) return;
      this.#waiting.delete(head.room);
    }
  }

  async #isRemoved(head: Head): Promise<boolean> {
    const { outbox, timings, onFault } = this.#parts;
    try {
      await outbox.remove(this.#accountId, head, false);
      return true;
    } catch (fault) {
      onFault(fault as Error);
      this.#retryAtMs = performance.now() + timings.retryAfterMs;
      return false;
    }
  }
}
