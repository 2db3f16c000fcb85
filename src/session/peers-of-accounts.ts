/** Values by account and peer; those of one account are found without a look at the others. */
export class PeersOfAccounts<T> {
  readonly #accounts = new Map<number, Map<string, T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(accountId: number, name: string): T | undefined {
    return this.#accounts.get(accountId)?.get(name);
  }

  /** Sets the value of a peer, in place of the one before. */
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

  /** Returns the values of an account, as they are now. */
  of(accountId: number): T[] {
    return [...(this.#accounts.get(accountId)?.values() ?? [])];
  }

  /** Returns the accounts that have values, as they are now. */
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
