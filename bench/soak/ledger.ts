/** Interval of the reporter's writes, 5 s, and half a second for a slow write. */
const WRITE_EVERY_MS = 5500;
/** Time after which a write that Redis does not answer is given up; it is repeated with the next. */
const WRITE_TIMEOUT_MS = 1500;
/**
 * Mean difference between client and gateway in the length of a stay: a message and the loss of the socket
 * each pass the event loops of two processes on a busy machine.
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

  /** Notes that from now on the client cannot see whether it is still in its room. */
  stoppedReading(): void {
    this.#unreadSinceMs = performance.now();
  }

  /** Notes that the client has left the room, or was cut off. */
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
  /** Parts of stays in which the client could not see whether it was still in its room. */
  readonly #unread: Stay[] = [];
  readonly #kills: { nodeRun: string; atMs: number }[] = [];
  readonly #redisAway: Span[] = [];

  /** @param nodeRun the node, and the number of its start */
  connect(accountId: number, nodeRun: string): ConnectionLedger {
    return new ConnectionLedger((span, isUnread) => {
      (isUnread ? this.#unread : this.#stays).push({ ...span, accountId, nodeRun });
    });
  }

  redisWasAway(fromMs: number, toMs: number): void {
    this.#redisAway.push({ fromMs, toMs });
  }

  /** Notes the death of a node: the time that it had counted since its last write is lost. */
  nodeWasKilled(nodeRun: string, atMs: number): void {
    this.#kills.push({ nodeRun, atMs });
  }

  /** Returns the peer-time of an account, in seconds: as its clients saw it, and the bounds of the usage. */
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

  /** Returns the parts of stays that killed nodes may not have written. */
  #lost(): Stay[] {
    return this.#kills.flatMap(({ nodeRun, atMs }) => {
      const fromMs = this.#writtenBefore(atMs);
      return this.#stays
        .filter((stay) => stay.nodeRun === nodeRun && stay.toMs > fromMs)
        .map((stay) => ({ ...stay, fromMs: Math.max(fromMs, stay.fromMs) }));
    });
  }

  /** Returns the time since which a node that was killed at `atMs` may not have written. */
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
