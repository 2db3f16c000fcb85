import type { FastifyBaseLogger } from 'fastify';
import { PartylineError } from '../protocol/errors.ts';
import type { Sessions } from './sessions.ts';

const LOOK_EVERY_MS = 100;
const REPORT_EVERY_MS = 10_000;
/** A client that is refused finds another node at once. */
const RETRY_AFTER_MS = 1000;

/** The going away of this node: nobody new comes in, and those who are here are asked to leave, until a deadline. */
export class Drain {
  readonly #sessions: Sessions;
  readonly #log: FastifyBaseLogger;
  #deadlineMs: number | undefined;

  constructor(sessions: Sessions, log: FastifyBaseLogger) {
    this.#sessions = sessions;
    this.#log = log;
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

  /** How long clients may stay, ms, once they have been asked to leave in `withinMs`: less, if they were asked before. */
  timeLeftMs(withinMs: number): number {
    const leftMs = (this.#deadlineMs ?? Infinity) - performance.now();
    return Math.round(Math.min(withinMs, Math.max(0, leftMs)));
  }

  /**
   * Asks all clients to go; resolves when all have, or in `withinMs`. Another call can only shorten it.
   * @param by who asked for it, for the log
   */
  async begin(withinMs: number, by: string): Promise<void> {
    const isFirst = this.#deadlineMs === undefined;
    const deadlineMs = performance.now() + withinMs;
    const message = isFirst ? 'drain began' : 'drain asked for again';
    this.#log.info({ by, withinMs, peers: this.#sessions.size }, message);
    if (isFirst) this.#sessions.announceDrain(withinMs);
    this.#deadlineMs = Math.min(deadlineMs, this.#deadlineMs ?? Infinity);
    let reportAtMs = performance.now() + REPORT_EVERY_MS;
    while (this.#sessions.size > 0 && performance.now() < this.#deadlineMs) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
      if (!isFirst || performance.now() < reportAtMs) continue;
      this.#log.info({ peers: this.#sessions.size }, 'drain in progress');
      reportAtMs += REPORT_EVERY_MS;
    }
    if (isFirst) this.#log.info({ peers: this.#sessions.size }, 'drain ended');
  }
}
