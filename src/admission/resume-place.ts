import { type Credentials, mayPublish, roomFault } from '../accounts/authenticator.ts';
import type { PeerKind } from '../protocol/messages.ts';
import type { StoredPlace } from '../usage/stored-place.ts';
import type { SuspendedPeer } from '../session/suspended-peers.ts';

/**
 * Removes from a kept place what a new client with these credentials would not get: the minutes may have been
 * used up, and the token may grant less than the previous one.
 * @returns true if the peer's producer was closed
 */
export function restrict(
  kept: SuspendedPeer | undefined,
  credentials: Pick<Credentials, 'grant'>,
  remainingMinutes = Infinity,
): boolean {
  if (!kept) return false;
  const { room, peer } = kept.place;
  if (remainingMinutes === 0) kept.end('minutes_exhausted');
  else if (roomFault(credentials, room)) kept.end('forbidden');
  else if (peer.kind === 'webrtc' && !mayPublish(credentials)) return peer.stopPublishing();
  return false;
}

/** Returns the place of a session that its client resumes, on this node or another; undefined if it no longer has one. */
export function placeToResume(
  sessionId: string | undefined,
  last: StoredPlace | undefined,
  kept: SuspendedPeer | undefined,
): { room: string; isHere: boolean; kind: PeerKind } | undefined {
  if (sessionId === undefined) return undefined;
  if (kept?.place.sessionId === sessionId) {
    return { room: kept.place.room, isHere: true, kind: kept.place.peer.kind };
  }
  return last?.sessionId === sessionId ? { ...last, isHere: false } : undefined;
}
