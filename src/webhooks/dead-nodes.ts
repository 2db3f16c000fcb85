import type { Timings } from '../../config/timings.ts';
import { Liveness } from '../store/liveness.ts';
import type { WebhookStore } from './webhook-store.ts';

/** Removes the peers of nodes that were killed, or that have ended and keep no places any more. Any number of processes may do so at once. */
export class DeadNodes {
  readonly #store: WebhookStore;
  readonly #liveness: Liveness;
  readonly #timings: Timings['webhooks'];
  readonly #wallMs: () => number;

  /** @param wallMs Redis's time */
  constructor(store: WebhookStore, timings: Timings['webhooks'], wallMs: () => number) {
    this.#store = store;
    this.#liveness = new Liveness(timings.deadAfterMs);
    this.#timings = timings;
    this.#wallMs = wallMs;
  }

  /**
   * Checks for dead nodes; must be called at regular intervals.
   * @throws {PartylineError} `overloaded`
   */
  async sweep(): Promise<void> {
    try {
      // Before the nodes: one that comes and departs between the two reads must not seem to have
      // been removed.
      const departed = await this.#store.readDeparted();
      const nodes = await this.#store.readNodes();
      this.#liveness.see(nodes, this.#wallMs());
      for (const [node, heartbeats] of this.#liveness.dead((id) =>
        this.#limitOf(departed.get(id)),
      )) {
        await this.#store.reap(node, heartbeats);
        this.#liveness.forget(node);
      }
      // A worker of an earlier version has removed the node, but not the time of its places.
      for (const node of departed.keys()) if (!nodes.has(node)) await this.#store.retire(node);
    } catch (fault) {
      this.#liveness.restart();
      throw fault;
    }
    await this.#store.takeOutDead(this.#wallMs());
  }

  /** Returns the silence after which a node is dead, ms. */
  #limitOf(keepMs: number | undefined): number {
    const { deadAfterMs, leaveHoldMs } = this.#timings;
    if (keepMs === undefined) return deadAfterMs;
    // `leaveHoldMs` lets another node report the join of a peer that came to it at the last moment.
    // A jump of the clock counts as half of `deadAfterMs` at most, and must not be enough alone.
    return Math.max(keepMs + leaveHoldMs, deadAfterMs / 2 + 1);
  }
}
