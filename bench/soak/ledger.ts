/** The reporter writes every 5 s; half a second more for a write that takes its time. */
const WRITE_EVERY_MS = 5500;
/** A write that Redis does not answer is given up after 1.5 s, and made again with the next. */
const WRITE_TIMEOUT_MS = 1500;
/**
 * So far apart client and gateway see the beginning and the end of a stay, together, in the mean: a message and a loss of
 * the socket, each on its way through the event loops of two processes on a busy machine.
 */
const EDGES_MS = 60;

/** A span of time, by performance.now(). */
type Span = { fromMs: number; toMs: number };
type Stay = Span & { accountId: number; nodeRun: string };

/** One connection's stays in rooms, as the client sees them. */
export class ConnectionLedger {
  readonly #note: (span: Span, isUnread: boolean) => void;
  #sinceMs: number | undefined;
  #unreadSinceMs: number | undefined;

  constructor(note: (span: Span, isUnread: boolean) => void) {
    this.#note = note;
  }

  get isInRoom(): boolean {
    return this.#sinceMs !== undefined;
  }

  entered(): void {
    this.#sinceMs ??= performance.now();
  }

  /** From now on the client cannot see whether it still is in its room. */
  stoppedReading(): void {
    this.#unreadSinceMs = performance.now();
  }

  /** Out of the room, or cut off. */
  left(): void {
    if (this.#sinceMs === undefined) return;
    const toMs = performance.now();
    this.#note({ fromMs: this.#sinceMs, toMs }, false);
    if (this.#unreadSinceMs !== undefined) this.#note({ fromMs: this.#unreadSinceMs, toMs }, true);
    this.#sinceMs = undefined;
  }
}

/** Expected usage: peer-time in rooms as the clients saw it, and the tolerance of the gateway's count. */
export class Ledger {
  readonly #stays: Stay[] = [];
  /** Parts of stays of which the client could not see whether it still was there. */
  readonly #unread: Stay[] = [];
  readonly #kills: { nodeRun: string; atMs: number }[] = [];
  readonly #redisAway: Span[] = [];

  /** @param nodeRun the node, and which start of it */
  connect(accountId: number, nodeRun: string): ConnectionLedger {
    return new ConnectionLedger((span, isUnread) => {
      (isUnread ? this.#unread : this.#stays).push({ ...span, accountId, nodeRun });
    });
  }

  redisWasAway(fromMs: number, toMs: number): void {
    this.#redisAway.push({ fromMs, toMs });
  }

  /** Time that a node had counted since its last write is lost. */
  nodeWasKilled(nodeRun: string, atMs: number): void {
    this.#kills.push({ nodeRun, atMs });
  }

  /** Peer-time of an account, in seconds: as the clients saw it, and what usage may be at least and at most. */
  expected(accountId: number): { seenS: number; leastS: number; mostS: number; doubtfulS: number } {
    const stays = this.#stays.filter((stay) => stay.accountId === accountId);
    const seenMs = lengthOf(stays);
    const doubts = [...this.#unread, ...this.#lost()];
    const doubtfulMs = lengthOf(doubts.filter((doubt) => doubt.accountId === accountId));
    const edgesMs = stays.length * EDGES_MS;
    return {
      seenS: seenMs / 1000,
      leastS: (seenMs - doubtfulMs - edgesMs) / 1000,
      mostS: (seenMs + edgesMs) / 1000,
      doubtfulS: doubtfulMs / 1000,
    };
  }

  /** Parts of stays that killed nodes may not have written. */
  #lost(): Stay[] {
    return this.#kills.flatMap(({ nodeRun, atMs }) => {
      const fromMs = this.#writtenBefore(atMs);
      return this.#stays
        .filter((stay) => stay.nodeRun === nodeRun && stay.toMs > fromMs)
        .map((stay) => ({ ...stay, fromMs: Math.max(fromMs, stay.fromMs) }));
    });
  }

  /** Since when a node may not have written. */
  #writtenBefore(atMs: number): number {
    let sinceMs = atMs - WRITE_EVERY_MS;
    for (const away of this.#redisAway.toReversed()) {
      const reachesIn = away.toMs + WRITE_TIMEOUT_MS > sinceMs && away.fromMs < atMs;
      if (reachesIn) sinceMs = Math.min(sinceMs, away.fromMs - WRITE_EVERY_MS);
    }
    return sinceMs;
  }
}

const lengthOf = (spans: Span[]) => spans.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
