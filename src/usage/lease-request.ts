import type { StoredPlace } from './stored-place.ts';

/** Session of a peer as stored in Redis, beside the peer's place. */
export type StoredSession = {
  sessionId: string;
  /** Settings of the client, as `session/audio-settings.ts` writes them. */
  settings: string;
};

/** WHIP or WHEP half that asks for a lease; its other half may be on another node. */
export type HalfOfPeer = {
  /** Stored with the lease, so that of two halves that arrive at the same time, the second finds the first. */
  place: StoredPlace;
  /** A session whose id begins with this, in the same room, is joined, not replaced. */
  joins: string;
  /** A session is replaced nevertheless if its id begins with this, too: if this is empty, every session is. */
  replaces: string;
};

/** Request for a lease. */
export type LeaseRequest = StoredSession & {
  maxCcu: number;
  /** True if the holder was handed over by another process. */
  isMoved: boolean;
  half?: HalfOfPeer;
};

/** Arguments of `admitLease` after the holder. */
export const wordsOf = (
  { maxCcu, isMoved, sessionId, settings, half }: LeaseRequest,
  leaseMs: number,
): string[] => [
  String(maxCcu),
  String(leaseMs),
  isMoved ? '1' : '0',
  sessionId,
  settings,
  half ? JSON.stringify(half.place) : '',
  half?.joins ?? '',
  half?.replaces ?? '',
];

/** First value of the reply of `admitLease` if the lease is not granted; 1 means that it is. */
export const REFUSED = {
  limitReached: 0,
  /** A newer connection of the peer has the lease. */
  byNewer: -1,
  /** The half must join the session at the place that the reply has. */
  mustJoin: -2,
} as const;

/** Reply of `admitLease`. */
export type AdmitReply = [
  admitted: number,
  held: number,
  place: string | null,
  known?: number,
  stored?: string,
  order?: number,
];
