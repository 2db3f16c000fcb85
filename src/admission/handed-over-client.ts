import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { type Credentials, roomFault } from '../accounts/authenticator.ts';
import { type Destination, Handover, type Unread } from '../handover/handover.ts';
import { parseClientMessage } from '../protocol/client-messages.ts';
import { checkRoomName, ECHO_ROOM } from '../protocol/names.ts';
import type { SuspendedPeers } from '../session/suspended-peers.ts';
import type { Session } from '../session/session.ts';
import type { SessionQuery } from './query.ts';

/**
 * A client on its way from one process to another, because it joined before it sent anything else. Its messages are
 * parsed only by the process that receives it: they may be of any shape, and the channel between processes must bear them.
 */
export type HandedOverClient = {
  sessionId: string;
  connectionId: string;
  query: SessionQuery;
  credentials: Credentials;
  unread: Unread;
};

/** The other processes that listen on the same port. */
export type HandoverTargets = {
  /** Returns the process that a room is in; undefined if it is this one. */
  processOf(accountId: number, room: string): number | undefined;
  /** Hands a client over with its connection, which nobody reads. */
  move(to: number, client: HandedOverClient, connection: Socket): void;
};

/** A longer text is no join of any use. */
const MAX_JOIN_CHARACTERS = 16 * 1024;

/**
 * Opens the gate through which a client reaches the process of its room; undefined if there is no other process, or its
 * connection cannot be handed over: then the session reads the client by itself.
 * @param onLeave called when the session has let go of the client, which another process goes on with
 */
export function openHandover(
  { homes, places }: { homes: HandoverTargets | undefined; places: SuspendedPeers },
  session: Session,
  socket: WebSocket,
  stream: Socket,
  client: Omit<HandedOverClient, 'unread'>,
  onLeave: () => void,
): Handover | undefined {
  // The keys of an encrypted connection are known to this process only.
  if (!homes || 'encrypted' in stream) return undefined;
  const { credentials, query } = client;
  const accountId = credentials.account.id;
  const processOf = (room: string): number | undefined => {
    // An echo room is where its client is, and a place that is kept here is taken up here.
    if (room === ECHO_ROOM || places.get(accountId, query.peer)) return undefined;
    return homes.processOf(accountId, room);
  };
  return new Handover(socket, stream, {
    destinationOf: (data, isBinary) => {
      // An empty message is ignored.
      if (isBinary) return data.length > 0 ? 'here' : 'undecided';
      if (!session.isIdle || data.length > MAX_JOIN_CHARACTERS) return 'here';
      return destinationOf(data.toString(), credentials, processOf);
    },
    onMessage: (data, isBinary) => session.receive(data, isBinary),
    onStay: () => session.listen(),
    send: (to, unread, connection) => {
      session.detach();
      onLeave();
      homes.move(to, { ...client, unread }, connection);
    },
  });
}

/** A client that joins at first goes to where the room is; any other stays, because no other process knows of it. */
function destinationOf(
  text: string,
  credentials: Credentials,
  processOf: (room: string) => number | undefined,
): Destination {
  try {
    const message = parseClientMessage(text);
    if (message.type !== 'join') return 'here';
    const room = checkRoomName(message.room, 'bad_message');
    const mayJoin = roomFault(credentials, room) === undefined;
    return (mayJoin ? processOf(room) : undefined) ?? 'undecided';
  } catch {
    // The session refuses the message, and the client may still join another room.
    return 'undecided';
  }
}
