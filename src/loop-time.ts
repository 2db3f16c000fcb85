/** Time that all work in slices takes together in one turn of the event loop, ms: a third of a frame. */
const ALL_MS = 6;

/**
 * Time of the event loop, shared by all owners of sliced work. Each alone keeps its slice short; four that are busy in the same
 * turn would take four slices, so they share the time of a turn.
 */
export class LoopTime {
  readonly #busy = new Set<object>();

  /** Notes that work of an owner waits for the next turn of the event loop, or no longer does. */
  note(owner: object, isBusy: boolean): void {
    if (isBusy) this.#busy.add(owner);
    else this.#busy.delete(owner);
  }

  /** Returns the time that an owner may take in a row, ms. */
  shareMs(owner: object): number {
    const others = this.#busy.size - (this.#busy.has(owner) ? 1 : 0);
    return ALL_MS / (others + 1);
  }
}

/** Time of the event loop of this process. */
export const loopTime = new LoopTime();
