import type { Clients } from './open-clients.ts';
import type { Media } from './open-media.ts';
import type { Opening } from './opening.ts';

/** The end of a gateway: with notice to its clients, or at once. */
export class Shutdown {
  readonly #opening: Opening;
  readonly #clients: Clients;
  readonly #pool: Media['pool'];
  #isClosing = false;

  constructor(opening: Opening, clients: Clients, { pool }: Media) {
    this.#opening = opening;
    this.#clients = clients;
    this.#pool = pool;
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** Ends every session before it returns, then closes every part. */
  readonly close = (): Promise<void> => {
    this.#isClosing = true;
    this.#pool.expectExit();
    // A client that is being admitted would get its session after all others have ended.
    this.#clients.drain.refuse();
    this.#clients.sessions.drain();
    return this.#opening.opened.disposeAsync();
  };

  /** Drains, then closes. @param by requester, for the log */
  readonly drainAndClose = async (
    withinMs = this.#opening.settings.DRAIN_MS,
    by = 'its process',
  ): Promise<void> => {
    await this.#clients.drain.begin(withinMs, by);
    await this.close();
  };

  /** Begins to drain all gateway processes of the group. @returns the time that clients have to leave, ms */
  readonly startDrain = (withinMs = this.#opening.settings.DRAIN_MS, by: string): number => {
    const { shared, log } = this.#opening;
    const timeLeftMs = this.#clients.drain.timeLeftMs(withinMs);
    if (shared) shared.drainAll(withinMs, by);
    else {
      this.drainAndClose(withinMs, by).catch((fault: unknown) => {
        log.error({ err: fault }, 'process not closed cleanly');
      });
    }
    return timeLeftMs;
  };
}
