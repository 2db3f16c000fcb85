import { PartylineError } from '../protocol/errors.ts';
import type { Sessions } from './sessions.ts';

const LOOK_EVERY_MS = 100;
/** A client that is refused finds another node at once. */
const RETRY_AFTER_MS = 1000;

/** The going away of this node: nobody new comes in, and those who are here are asked to leave, until a deadline. */
export class Drain {
  readonly #sessions: Sessions;
  #deadlineMs: number | undefined;

  constructor(sessions: Sessions) {
    this.#sessions = sessions;
  }

  get isDraining(): boolean {
    return this.#deadlineMs !== undefined;
  }

  /** @throws {PartylineError} `overloaded` when this node takes nobody any more */
  check(): void {
    if (!this.isDraining) return;
    const options = { retryAfterMs: RETRY_AFTER_MS };
    throw new PartylineError('overloaded', 'This node is going away.', options);
  }

  /** Asks all clients to go; resolves when all have, or in `withinMs`. Another call can only shorten it. */
  async begin(withinMs: number): Promise<void> {
    const deadlineMs = performance.now() + withinMs;
    if (this.#deadlineMs === undefined) this.#sessions.announceDrain(withinMs);
    this.#deadlineMs = Math.min(deadlineMs, this.#deadlineMs ?? Infinity);
    while (this.#sessions.size > 0 && performance.now() < this.#deadlineMs) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }
}
