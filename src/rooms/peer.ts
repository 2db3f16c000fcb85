import type { FastifyBaseLogger } from 'fastify';
import type { LeaveReason, PeerKind, ServerMessage } from '../protocol/messages.ts';

/** How a peer's audio has fared: what waits, how its clock runs, what was left out of what it said and made up in what it heard. */
export type AudioStats = {
  bufferedMs: number;
  driftPpm: number;
  droppedMs: number;
  concealedMs: number;
};

/** One who is in a room, as the room sees it. */
export type Peer = {
  /** The name, unique within the account. */
  readonly name: string;
  readonly kind: PeerKind;
  /** Nothing that it says is heard. */
  readonly isMuted: boolean;
  /** Its sound goes both ways without its connection, as that of a browser does. */
  readonly hasMediaPath: boolean;
  /** Hears each producer of the room's router apart, as browsers do. */
  readonly hearsProducers: boolean;
  /** Not of browsers, which fare as they can. */
  readonly audioStats?: AudioStats;
  /** Takes its place in the room; the others are told. */
  enter(): void;
  /** Begins to hear the room. */
  listen(): void;
  notify(message: ServerMessage): void;
  /** Notes a message, as JSON, that is sent by {@link flush} or before the next message. @returns true if it is the first */
  notifyLater(text: string): boolean;
  /** Sends what was noted. */
  flush(): void;
  /** Takes the producer of another peer, which is there to be heard. */
  producerAdded(producer: RoomProducer): void;
  /** The room's media worker died, and what the peer had there with it; the room has another one now. */
  mediaRestarted(): void;
  /** Its connection is lost: its place is kept, and `outlet` stands in for the client. */
  suspend(outlet: ClientConnection): void;
  /** The same peer is in the room on another node now. */
  replace(): void;
  /** Leaves the room and lets go of all that it opened. Idempotent. */
  close(reason: LeaveReason): void;
};

/** The session of a peer, as far as the peer needs it. */
export type ClientConnection = {
  readonly name: string;
  readonly log: FastifyBaseLogger;
  notify(message: ServerMessage): void;
  /** Notes a message, as JSON, that is sent by {@link flush} or before the next message. @returns true if it is the first */
  notifyLater(text: string): boolean;
  /** Sends what was noted. */
  flush(): void;
  /** Sends one binary frame; drops it when the client does not keep up. */
  sendAudio(frame: Buffer): void;
  /** False while the client is sent sound of known formats. */
  readonly takesRelayed: boolean;
  /** Takes one message of an unknown format, as another client has sent it. */
  takeRelayed(message: Buffer): void;
  /** The volumes that the client has set do not apply, because the room has too many mixes of listeners' own. */
  volumeLimited(): void;
  /** Ends the session: it cannot go on. The session closes the peer in turn. */
  fail(fault: unknown): void;
};

/** Sound of a peer of the room; `owner` is the peer, if it is of this node. */
export type RoomProducer = { id: string; peer: string; owner: Peer | undefined };
