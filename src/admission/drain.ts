import type { FastifyBaseLogger } from 'fastify';
import { PartylineError } from '../protocol/errors.ts';
import type { Sessions } from './sessions.ts';

const LOOK_EVERY_MS = 100;
const REPORT_EVERY_MS = 10_000;
/** Time after which a refused client may try again, ms: another node admits it at once. */
const RETRY_AFTER_MS = 1000;

/** The drain of this node: new clients are refused, and connected ones are asked to leave by a deadline. */
export class Drain {
  readonly #sessions: Sessions;
  readonly #log: FastifyBaseLogger;
  #deadlineAtMs: number | undefined;

  constructor(sessions: Sessions, log: FastifyBaseLogger) {
    this.#sessions = sessions;
    this.#log = log;
  }

  get isDraining(): boolean {
    return this.#deadlineAtMs !== undefined;
  }

  /** @throws {PartylineError} `overloaded` while this node drains */
  check(): void {
    if (!this.isDraining) return;
    const options = { retryAfterMs: RETRY_AFTER_MS };
    throw new PartylineError('overloaded', 'This node is draining.', options);
  }

  /** Returns the time that clients have left after being asked to leave within `withinMs`, ms: less if they were asked before. */
  timeLeftMs(withinMs: number): number {
    const leftMs = (this.#deadlineAtMs ?? Infinity) - performance.now();
    return Math.round(Math.min(withinMs, Math.max(0, leftMs)));
  }

  /** Refuses new clients from now on, without asking others to leave: this node closes at once. */
  refuse(): void {
    this.#deadlineAtMs ??= performance.now();
  }

  /**
   * Asks all clients to leave; resolves when all have left, or after `withinMs`. A further call can only shorten the time.
   * @param by requester, for the log
   */
  async begin(withinMs: number, by: string): Promise<void> {
    const isFirst = this.#deadlineAtMs === undefined;
    const deadlineAtMs = performance.now() + withinMs;
    const message = isFirst ? 'drain began' : 'drain requested again';
    this.#log.info({ by, withinMs, peers: this.#sessions.size }, message);
    if (isFirst) this.#sessions.announceDrain(withinMs);
    this.#deadlineAtMs = Math.min(deadlineAtMs, this.#deadlineAtMs ?? Infinity);
    let reportAtMs = performance.now() + REPORT_EVERY_MS;
    while (this.#sessions.size > 0 && performance.now() < this.#deadlineAtMs) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
      if (!isFirst || performance.now() < reportAtMs) continue;
      this.#log.info({ peers: this.#sessions.size }, 'drain in progress');
      reportAtMs += REPORT_EVERY_MS;
    }
    if (isFirst) this.#log.info({ peers: this.#sessions.size }, 'drain ended');
  }
}
