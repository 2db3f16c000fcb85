import type { WebhookStore } from './webhook-store.ts';

/** Takes the peers of nodes out that were killed. Any number of processes may do so at once. */
export class DeadNodes {
  readonly #store: WebhookStore;
  readonly #deadAfterMs: number;
  /** By node: how often it had shown that it lives, and since when it has not done so again (monotonic, ms). */
  readonly #nowMs: () => number;
  #seen = new Map<string, { heartbeats: string; sinceMs: number }>();

  constructor(store: WebhookStore, deadAfterMs: number, nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#store = store;
    this.#deadAfterMs = deadAfterMs;
  }

  /**
   * To be called regularly.
   * @throws {PartylineError} `overloaded`
   */
  async sweep(): Promise<void> {
    for (const [node, heartbeats] of await this.#findSilent())
      await this.#store.reap(node, heartbeats);
    await this.#store.takeOutDead(this.#nowMs());
  }

  async #findSilent(): Promise<[string, string][]> {
    const nowMs = performance.now();
    const before = this.#seen;
    // While Redis is disconnected no node can show that it lives: that time does not count.
    this.#seen = new Map();
    for (const [node, heartbeats] of await this.#store.readNodes()) {
      const known = before.get(node);
      this.#seen.set(
        node,
        known?.heartbeats === heartbeats ? known : { heartbeats, sinceMs: nowMs },
      );
    }
    return [...this.#seen]
      .filter(([, { sinceMs }]) => nowMs - sinceMs > this.#deadAfterMs)
      .map(([node, { heartbeats }]) => [node, heartbeats]);
  }
}
