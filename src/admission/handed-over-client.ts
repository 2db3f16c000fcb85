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
 * A client that is handed from one process to another, because `join` was its first message. Its messages
 * travel as the bytes that came: this process parses them only to find a `join`, and the receiving process
 * parses them again.
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
  /** Hands a client over with its connection, from which nothing is read any more. */
  move(to: number, client: HandedOverClient, connection: Socket): void;
};

/** Longest text that is parsed as a `join`, characters. */
const MAX_JOIN_CHARACTERS = 16 * 1024;

/**
 * Opens the gate through which a client reaches the process of its room; undefined if there is no other process, or its
 * connection cannot be handed over: then the session reads from the socket directly.
 * @param onLeave called when the session has released the client to another process
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
    // An echo room lives in the process of its client, and a place that is kept here is resumed
    // here.
    if (room === ECHO_ROOM || places.get(accountId, query.peer)) return undefined;
    return homes.processOf(accountId, room);
  };
  let readAll: (() => void) | undefined;
  const handover = new Handover(socket, stream, {
    readAll: () => readAll?.(),
    destinationOf: (data, isBinary) => {
      // The session ignores an empty binary message, so it decides nothing.
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
  // After the gate is installed: it must see every byte that ws gets.
  readAll = session.read();
  return handover;
}

/**
 * A client whose first message is `join` goes to the process of the room; any other stays, because no other
 * process knows of it.
 */
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
