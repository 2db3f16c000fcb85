/** Values by account and peer name; the values of one account are found without a scan of all. */
export class PeersOfAccounts<T> {
  readonly #accounts = new Map<number, Map<string, T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Returns the value of a peer; undefined if there is none. */
  get(accountId: number, name: string): T | undefined {
    return this.#accounts.get(accountId)?.get(name);
  }

  /** Sets the value of a peer, replacing an earlier one. */
  set(accountId: number, name: string, value: T): void {
    const peers = this.#accounts.get(accountId) ?? new Map<string, T>();
    this.#accounts.set(accountId, peers);
    if (!peers.has(name)) this.#size += 1;
    peers.set(name, value);
  }

  delete(accountId: number, name: string): void {
    const peers = this.#accounts.get(accountId);
    if (!peers?.delete(name)) return;
    this.#size -= 1;
    if (peers.size === 0) this.#accounts.delete(accountId);
  }

  /** Returns a copy of the values of an account. */
  of(accountId: number): T[] {
    return [...(this.#accounts.get(accountId)?.values() ?? [])];
  }

  /** Returns the oldest value of an account; undefined if it has none. */
  firstOf(accountId: number): T | undefined {
    return this.#accounts.get(accountId)?.values().next().value;
  }

  /** Returns a copy of the ids of accounts that have values. */
  accountIds(): number[] {
    return [...this.#accounts.keys()];
  }

  /** Yields all values; those that are deleted meanwhile are left out. */
  *values(): Generator<T> {
    for (const peers of this.#accounts.values()) yield* peers.values();
  }

  clear(): void {
    this.#accounts.clear();
    this.#size = 0;
  }
}
