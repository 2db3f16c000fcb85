import { Liveness } from '../store/liveness.ts';
import type { WebhookStore } from './webhook-store.ts';

/** Removes the peers of nodes that were killed. Any number of processes may do so at once. */
export class DeadNodes {
  readonly #store: WebhookStore;
  readonly #liveness: Liveness;
  readonly #wallMs: () => number;

  /** @param wallMs Redis's time */
  constructor(store: WebhookStore, deadAfterMs: number, wallMs: () => number) {
    this.#store = store;
    this.#liveness = new Liveness(deadAfterMs);
    this.#wallMs = wallMs;
  }

  /**
   * Checks for dead nodes; must be called at regular intervals.
   * @throws {PartylineError} `overloaded`
   */
  async sweep(): Promise<void> {
    try {
      this.#liveness.see(await this.#store.readNodes(), this.#wallMs());
      for (const [node, heartbeats] of this.#liveness.dead()) {
        await this.#store.reap(node, heartbeats);
        this.#liveness.forget(node);
      }
    } catch (fault) {
      this.#liveness.restart();
      throw fault;
    }
    await this.#store.takeOutDead(this.#wallMs());
  }
}
