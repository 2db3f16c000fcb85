const MAX_IN_WINDOW = 20;
const WINDOW_MS = 10_000;

/** Twenty bad messages in ten seconds are no accident (docs/protocol.md, "Errors on the WebSocket"). */
export class BadMessageBudget {
  #spentAtMs: number[] = [];

  /** Counts one bad message; true if it is the one too many. */
  spend(nowMs: number): boolean {
    this.#spentAtMs = this.#spentAtMs.filter((atMs) => nowMs - atMs < WINDOW_MS);
    this.#spentAtMs.push(nowMs);
    return this.#spentAtMs.length >= MAX_IN_WINDOW;
  }
}
