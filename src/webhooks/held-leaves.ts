import type { Change } from './events.ts';

type Held = { leave: Change; timer: NodeJS.Timeout };

/**
 * Leaves of peers that are in their room on another node, held back for a while: when this node hears of the other
 * connection, Redis may not have it yet, and would tell that the peer left and came back.
 */
export class HeldLeaves {
  readonly #holdMs: number;
  /** Maximum number of leaves held; beyond it the oldest one is released. */
  readonly #max: number;
  readonly #release: (leave: Change) => void;
  /** Leaves by the key of their peer, the oldest first. */
  readonly #held = new Map<string, Held>();

  constructor(holdMs: number, max: number, release: (leave: Change) => void) {
    this.#holdMs = holdMs;
    this.#max = max;
    this.#release = release;
  }

  /** Returns whether the leave of a peer is held. */
  has(key: string): boolean {
    return this.#held.has(key);
  }

  /** Holds a leave, and releases it later. */
  hold(key: string, leave: Change): void {
    const timer = setTimeout(() => this.#end(key), this.#holdMs);
    this.#held.set(key, { leave, timer });
    const [oldest] = this.#held.keys();
    if (this.#held.size > this.#max && oldest !== undefined) this.#end(oldest);
  }

  /** Drops the leave of a peer that is back on this node, if one is held. */
  drop(key: string): void {
    clearTimeout(this.#held.get(key)?.timer);
    this.#held.delete(key);
  }

  /** Releases none of them any more. */
  close(): void {
    for (const { timer } of this.#held.values()) clearTimeout(timer);
  }

  #end(key: string): void {
    const held = this.#held.get(key);
    if (!held) return;
    this.drop(key);
    this.#release(held.leave);
  }
}
