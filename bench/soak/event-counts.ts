/** Numbers of events, by name. */
export class EventCounts {
  readonly #counts = new Map<string, number>();

  add(name: string): void {
    this.#counts.set(name, this.of(name) + 1);
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  /** Returns the counts, sorted by name. */
  entries(): [string, number][] {
    return [...this.#counts].toSorted(([one], [other]) => (one < other ? -1 : 1));
  }
}
