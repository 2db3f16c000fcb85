type Member = {
  sign: string;
  /** Time, by Redis's clock, over which this process has repeatedly read the same sign. */
  silentMs: number;
};

/**
 * Finds dead processes by the signs of life that each writes into Redis: a heartbeat, or a count that grows. A process is dead
 * when its sign has not changed for `deadAfterMs` of Redis's clock while this process kept reading it. Signs are only
 * compared for equality, so that an outage, a failover or a jump of Redis's clock kills nobody.
 */
export class Liveness {
  readonly #deadAfterMs: number;
  readonly #members = new Map<string, Member>();
  #readMs: number | undefined;

  constructor(deadAfterMs: number) {
    this.#deadAfterMs = deadAfterMs;
  }

  /**
   * Takes in one reading of all signs. A known process that is missing from it is silent.
   * @param signs sign of life by process
   * @param wallMs Redis's time of the reading
   */
  see(signs: ReadonlyMap<string, string>, wallMs: number): void {
    // A longer step is a jump of the clock or a stall of this process, during which the others were
    // not observed.
    const longestMs = this.#deadAfterMs / 2;
    const stepMs = Math.min(Math.max(0, wallMs - (this.#readMs ?? wallMs)), longestMs);
    this.#readMs = wallMs;
    for (const [id, member] of this.#members) {
      if ((signs.get(id) ?? member.sign) === member.sign) member.silentMs += stepMs;
    }
    for (const [id, sign] of signs) {
      if (this.#members.get(id)?.sign !== sign) this.#members.set(id, { sign, silentMs: 0 });
    }
  }

  /** Resets the silence of all processes: while Redis cannot be read, no process can show that it lives. */
  restart(): void {
    this.#readMs = undefined;
    for (const member of this.#members.values()) member.silentMs = 0;
  }

  /** Resets the silence of one process. */
  renew(id: string): void {
    const member = this.#members.get(id);
    if (member) member.silentMs = 0;
  }

  /**
   * Returns the dead processes, each with its last sign of life, until they are forgotten or show a new one.
   * @param limitOf silence after which a process is dead, ms; by default the same for all
   */
  dead(limitOf: (id: string) => number = () => this.#deadAfterMs): [id: string, sign: string][] {
    return [...this.#members]
      .filter(([id, { silentMs }]) => silentMs >= limitOf(id))
      .map(([id, { sign }]) => [id, sign]);
  }

  /** Forgets a process that was removed from Redis. */
  forget(id: string): void {
    this.#members.delete(id);
  }
}
