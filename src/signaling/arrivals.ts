import { Type } from 'typebox';
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
  room: Type.String(),
});

/**
 * Keeps `peer` unique within an account over all nodes: a connection ends the one before it, whose place waits for it; once
 * it is in a room, places in other rooms are given up. (A place in the same room is given up when the room sees the peer.)
 */
export class Arrivals {
  readonly #bus: Bus;

  constructor(bus: Bus, sessions: Sessions, places: KeptPlaces) {
    this.#bus = bus;
    bus.on('arrived', ArrivedSchema, ({ accountId, peer, connectionId }) => {
      sessions.replace(accountId, peer, connectionId);
    });
    bus.on('settled', SettledSchema, ({ accountId, peer, room }) => {
      const kept = places.get(accountId, peer);
      if (kept && kept.place.room !== room) kept.end('moved');
    });
  }

  /** A peer has connected. @throws {PartylineError} `overloaded` */
  arrived(accountId: number, peer: string, connectionId: string): Promise<void> {
    return this.#bus.send('arrived', { accountId, peer, connectionId });
  }

  /** A peer whose place was on another node is in a room of this one. @throws {PartylineError} `overloaded` */
  settled(accountId: number, peer: string, room: string): Promise<void> {
    return this.#bus.send('settled', { accountId, peer, room });
  }
}
