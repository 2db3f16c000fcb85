import type { FastifyBaseLogger } from 'fastify';
import type { LeaveReason, PeerKind, ServerMessage } from '../protocol/messages.ts';

/** Statistics of a peer's audio: queued audio, clock deviation, dropped audio that it sent, and concealed audio that it heard. */
export type AudioStats = {
  bufferedMs: number;
  driftPpm: number;
  droppedMs: number;
  concealedMs: number;
};

/** A peer in a room, as the room sees it. */
export type Peer = {
  /** The name, unique within the account. */
  readonly name: string;
  readonly kind: PeerKind;
  /** True while its audio is not heard. */
  readonly isMuted: boolean;
  /** True if its audio flows in both directions without its connection, as a browser's does. */
  readonly hasMediaPath: boolean;
  /** True if the peer has no connection except its media. */
  readonly isMediaOnly: boolean;
  /** True if the peer hears each producer of the room's router separately, as browsers do. */
  readonly hearsProducers: boolean;
  /** Audio statistics; undefined for browsers. */
  readonly audioStats?: AudioStats;
  /** Enters the room, which is announced to the others. */
  enter(): void;
  /** Starts to receive the room's audio. */
  listen(): void;
  notify(message: ServerMessage): void;
  /** Notes a message, as JSON, that is sent by {@link flush} or before the next message. @returns true if it is the first */
  notifyLater(text: string): boolean;
  /** Sends what was noted. */
  flush(): void;
  /** Offers a producer of another peer. */
  producerAdded(producer: RoomProducer): void;
  /** Notes that a producer which may have been offered has ended. */
  producerRemoved(id: string): void;
  /** Handles the death of the room's media worker, on which the peer's media is lost; the room has another one now. */
  mediaRestarted(): void;
  /** Suspends the peer, whose connection is lost: its place is kept, and `connection` stands in for the client. */
  suspend(connection: ClientConnection): void;
  /** Ends this place, because the same peer is in the room on another node now. */
  replace(): void;
  /** Leaves the room and closes everything that it opened. Idempotent. */
  close(reason: LeaveReason): void;
};

/** Part of a session that its peer uses. */
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
  /** Delivers one message of an unknown format, unchanged. */
  takeRelayed(message: Buffer): void;
  /** Reports that the client's volumes do not apply, because the room has too many individual mixes. */
  volumeLimited(): void;
  /** Ends the session after a fault. The session closes the peer in turn. */
  fail(fault: unknown): void;
};

/** Audio of a peer of the room; `owner` is the peer, if it is on this node. */
export type RoomProducer = { id: string; peer: string; owner: Peer | undefined };
