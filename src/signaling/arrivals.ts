import { Type } from 'typebox';
import type { Timings } from '../../config/timings.ts';
import type { Bus } from '../cluster/bus.ts';
import type { KeptPlaces } from './kept-places.ts';
import type { Sessions } from './sessions.ts';

const ArrivedSchema = Type.Object({
  accountId: Type.Integer(),
  peer: Type.String(),
  connectionId: Type.String(),
});
const SettledSchema = Type.Object({
  accountId: Type.Integer(),
  peer: Type.String(),
  connectionId: Type.String(),
  room: Type.String(),
});

/**
 * Keeps `peer` unique within an account over all nodes: a connection ends the one before it. One that is in a room is left
 * there until the new one hears its room, but not for long, so that a client that moves misses nothing; then places in
 * other rooms are given up. (A place in the same room is given up when the room sees the peer.)
 */
export class Arrivals {
  readonly #bus: Bus;

  constructor(
    bus: Bus,
    sessions: Sessions,
    places: KeptPlaces,
    { movesWithinMs, onTheWayMs }: Timings['sessions'],
  ) {
    this.#bus = bus;
    bus.on('arrived', ArrivedSchema, ({ accountId, peer, connectionId }) => {
      sessions.supersede(accountId, peer, connectionId, movesWithinMs);
    });
    bus.on('settled', SettledSchema, ({ accountId, peer, connectionId, room }) => {
      sessions.supersede(accountId, peer, connectionId, onTheWayMs);
      const kept = places.get(accountId, peer);
      if (kept && kept.place.room !== room) kept.end('moved');
    });
  }

  /** A peer has connected. @throws {PartylineError} `overloaded` */
  arrived(accountId: number, peer: string, connectionId: string): Promise<void> {
    return this.#bus.send('arrived', { accountId, peer, connectionId });
  }

  /** A peer whose place was on another node is in a room of this one, and hears it. @throws {PartylineError} `overloaded` */
  settled(accountId: number, peer: string, connectionId: string, room: string): Promise<void> {
    return this.#bus.send('settled', { accountId, peer, connectionId, room });
  }
}
