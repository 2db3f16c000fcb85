import { type Static, Type } from 'typebox';
import type { Timings } from '../../config/timings.ts';
import { type Grant, GrantSchema } from '../accounts/tokens.ts';
import type { Bus } from '../cluster/bus.ts';
import { replaced } from '../protocol/errors.ts';
import type { LeaveReason } from '../protocol/messages.ts';
import type { SuspendedPeers } from '../session/suspended-peers.ts';
import { restrict } from './resume-place.ts';
import type { Sessions } from './sessions.ts';

const ArrivedSchema = Type.Object({
  accountId: Type.Integer(),
  peer: Type.String(),
  connectionId: Type.String(),
  /** Order of the connection (`Admission`); of two connections the one with the higher order is newer. */
  order: Type.Integer(),
});
/** `room`: empty if the peer wants to be in none; `reason`: why, if it is in none. */
const SettledSchema = Type.Object({
  ...ArrivedSchema.properties,
  room: Type.String(),
  reason: Type.Optional(Type.Unsafe<LeaveReason>(Type.String())),
});
/** `grant`: rights of the token with which the peer has connected, if it has a token. */
const ConnectedSchema = Type.Object({
  ...ArrivedSchema.properties,
  grant: Type.Optional(GrantSchema),
});

/** Time for which the newest connection of a peer is remembered, ms. A connection that was admitted before it is open or refused by then. */
const REMEMBERED_MS = 10_000;

/**
 * Keeps `peer` unique within an account over all nodes: a new connection ends the previous one. A connection in a room stays
 * there until the new connection hears its room, but not for long, so that a client that moves misses nothing; then places in
 * other rooms are ended. (A place in the same room is ended when the room sees the peer.)
 */
export class PeerTakeover {
  readonly #bus: Bus;
  readonly #sessions: Sessions;
  /** Order of the newest connection that arrived at another node, by peer; the oldest entries first. */
  readonly #newest = new Map<string, { order: number; atMs: number }>();

  constructor(
    bus: Bus,
    sessions: Sessions,
    places: SuspendedPeers,
    { movesWithinMs, onTheWayMs }: Timings['sessions'],
  ) {
    this.#bus = bus;
    this.#sessions = sessions;
    bus.on('arrived', ConnectedSchema, ({ grant, ...arrived }, from) => {
      this.#remember(arrived);
      sessions.replaceSoon(arrived, movesWithinMs);
      // The node to which the client has come restricts its own place, and tells the client.
      if (from !== bus.node) restrict(places.get(arrived.accountId, arrived.peer), { grant });
    });
    bus.on('settled', SettledSchema, ({ room, reason = 'moved', ...settled }) => {
      sessions.replaceSoon(settled, onTheWayMs, { room, reason });
      const kept = places.get(settled.accountId, settled.peer);
      if (kept && kept.place.room !== room) kept.end(reason);
    });
  }

  /**
   * Checks that a peer has made no newer connection, to this node or another, while this one was being admitted.
   * @throws {PartylineError} `replaced`
   */
  checkNewest({ accountId, peer }: Peer, order: number): void {
    const session = this.#sessions.get(accountId, peer);
    const newest = this.#newest.get(keyOf(accountId, peer));
    if (Math.max(session?.order ?? 0, newest?.order ?? 0) > order) throw replaced();
  }

  /**
   * Announces that a peer has connected, and with which rights: those of a place that is kept elsewhere are no greater.
   * @throws {PartylineError} `overloaded`
   */
  arrived(peer: Peer, order: number, grant?: Grant): Promise<void> {
    return this.#bus.send('arrived', { ...peer, order, ...(grant && { grant }) });
  }

  /**
   * Announces that a peer whose place was on another node is in a room of this node, and hears it.
   * @throws {PartylineError} `overloaded`
   */
  settled(peer: Peer, order: number, room: string): Promise<void> {
    return this.#bus.send('settled', { ...peer, order, room });
  }

  /**
   * Announces that a peer whose place is on another node has given it up.
   * @throws {PartylineError} `overloaded`
   */
  left(peer: Peer, order: number, reason: LeaveReason): Promise<void> {
    return this.#bus.send('settled', { ...peer, order, room: '', reason });
  }

  #remember({ accountId, peer, order }: Static<typeof ArrivedSchema>): void {
    const nowMs = performance.now();
    for (const [key, { atMs }] of this.#newest) {
      if (nowMs - atMs < REMEMBERED_MS) break;
      this.#newest.delete(key);
    }
    const key = keyOf(accountId, peer);
    const before = this.#newest.get(key)?.order ?? 0;
    this.#newest.delete(key);
    this.#newest.set(key, { order: Math.max(before, order), atMs: nowMs });
  }
}

type Peer = { accountId: number; peer: string; connectionId: string };

const keyOf = (accountId: number, peer: string) => `${accountId}:${peer}`;
