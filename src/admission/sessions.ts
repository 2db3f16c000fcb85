import type { Timings } from '../../config/timings.ts';
import { PeersOfAccounts } from '../session/peers-of-accounts.ts';
import type { Session } from '../session/session.ts';
import type { Move } from '../session/session-parts.ts';

/**
 * Number of missed beats from which this process counts as having stood still (paused, stopped, swapped out): messages that came
 * meanwhile may not have been read by the next beat, so silence proves nothing about a client.
 */
const MISSED_BEATS = 5;

/**
 * Delay from a beat to the judgement of its clients, ms: time in which all messages that arrived before the beat are read. The event loop
 * runs timers before it reads sockets, and after a machine stood still, media workers must pass on their packets first.
 */
const READ_WITHIN_MS = 40;

/** Connection of a peer, and its order among those of the account. */
type ConnectionOfPeer = { accountId: number; peer: string; connectionId: string; order: number };

/** A client that is connected: over a WebSocket, or by WHIP and WHEP. */
export type LiveSession = Pick<
  Session,
  | 'name'
  | 'account'
  | 'id'
  | 'connectionId'
  | 'order'
  | 'settings'
  | 'accountChanged'
  | 'exhaust'
  | 'setMuted'
  | 'notify'
  | 'fail'
  | 'replace'
  | 'replaceSoon'
  | 'drain'
  | 'beat'
>;

/** Every client of this process: keeps them alive, and keeps `peer` unique within an account. */
export class Sessions {
  readonly #sessions = new PeersOfAccounts<LiveSession>();
  readonly #beatEveryMs: number;
  #timer: NodeJS.Timeout | undefined;
  /** Timer from a beat to the judgement of its clients, {@link READ_WITHIN_MS} later. */
  #reading: NodeJS.Timeout | undefined;
  /** Time of the last beat, ms of the monotonic clock. */
  #beatAtMs = 0;

  constructor({ beatEveryMs }: Timings['sessions']) {
    this.#beatEveryMs = beatEveryMs;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /**
   * Ends the session with this `peer`, because it has connected again.
   * @param connectionId the only connection of the session that is ended; by default any
   */
  replace(accountId: number, name: string, connectionId?: string): void {
    const session = this.get(accountId, name);
    if (!session) return;
    if (connectionId === undefined || connectionId === session.connectionId) session.replace();
  }

  /**
   * Ends the session with the same `peer` soon, unless it is the connection that takes its place, or a newer one.
   * @param move where the client is by now, if that is known
   */
  replaceSoon(
    { accountId, peer, connectionId, order }: ConnectionOfPeer,
    withinMs: number,
    move?: Move,
  ): void {
    const session = this.get(accountId, peer);
    if (!session || session.connectionId === connectionId || session.order > order) return;
    session.replaceSoon(withinMs, move);
  }

  add(session: LiveSession): void {
    const { account, name } = session;
    this.replace(account.id, name);
    this.#sessions.set(account.id, name, session);
    if (this.#timer) return;
    this.#beatAtMs = performance.now();
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      this.#reading = setTimeout(() => this.#beat(nowMs), READ_WITHIN_MS);
    }, this.#beatEveryMs);
  }

  /** Returns the session with this `peer`, if there is one. */
  get(accountId: number, name: string): LiveSession | undefined {
    return this.#sessions.get(accountId, name);
  }

  /** Sessions of an account. */
  of(accountId: number): LiveSession[] {
    return this.#sessions.of(accountId);
  }

  /** Returns one of the sessions of an account; undefined if it has none. */
  firstOf(accountId: number): LiveSession | undefined {
    return this.#sessions.firstOf(accountId);
  }

  accountIds(): number[] {
    return this.#sessions.accountIds();
  }

  /** Called by the session as it ends. */
  delete(session: LiveSession): void {
    const { account, name } = session;
    if (this.get(account.id, name) !== session) return;
    this.#sessions.delete(account.id, name);
    if (this.#sessions.size > 0) return;
    clearInterval(this.#timer);
    clearTimeout(this.#reading);
    this.#timer = undefined;
  }

  /** Sends every client `draining`: this node closes within `withinMs`. */
  announceDrain(withinMs: number): void {
    const message = { type: 'draining', deadline_ms: withinMs } as const;
    for (const session of this.#sessions.values()) session.notify(message);
  }

  /** Closes every client, because this node goes away. */
  drain(): void {
    for (const session of this.#sessions.values()) session.drain();
  }

  /** @param nowMs time until which all that came from the clients has been read */
  #beat(nowMs: number): void {
    const hasStoodStill = nowMs - this.#beatAtMs > MISSED_BEATS * this.#beatEveryMs;
    this.#beatAtMs = nowMs;
    for (const session of this.#sessions.values()) session.beat(nowMs, hasStoodStill);
  }
}
