import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import type { Credentials } from '../accounts/authenticator.ts';
import type { KeptPlaces } from '../session/kept-places.ts';
import type { SessionQuery } from './query.ts';
import { type Unread, WayOut } from '../handover/way-out.ts';

/**
 * A client whose first word was a join, on its way from one process to another. Its messages are parsed only by the
 * process that receives it: they may be of any shape, and the channel between processes must bear them.
 */
export type MovingClient = {
  sessionId: string;
  connectionId: string;
  query: SessionQuery;
  credentials: Credentials;
  unread: Unread;
};

/** The other processes that listen on the same port. */
export type Homes = {
  /** In which of them a room is; undefined if it is in this one. */
  homeOf(accountId: number, room: string): number | undefined;
  /** Hands a client over with its connection, which nobody reads. */
  move(to: number, client: MovingClient, connection: Socket): void;
};

/**
 * How a client comes to the process of its room; undefined if there is no other, or its connection cannot be handed over.
 * @param onLeft called when it is no longer this process's
 */
export function wayToOthers(
  { homes, places }: { homes: Homes | undefined; places: KeptPlaces },
  socket: WebSocket,
  stream: Socket,
  client: Omit<MovingClient, 'unread'>,
  onLeft: () => void,
): WayOut | undefined {
  // The keys of an encrypted connection are known to this process only.
  if (!homes || 'encrypted' in stream) return undefined;
  const accountId = client.credentials.account.id;
  return new WayOut(socket, stream, {
    homeOf: (room) => {
      // A place that is kept here is taken up here.
      const hasPlace = places.get(accountId, client.query.peer) !== undefined;
      return hasPlace ? undefined : homes.homeOf(accountId, room);
    },
    move: (to, unread, connection) => {
      onLeft();
      homes.move(to, { ...client, unread }, connection);
    },
  });
}
