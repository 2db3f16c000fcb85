import type { Sealer } from '../cluster/sealer.ts';
import type { Query } from './query.ts';

/** Context of a seal that binds a session to its peer, so that no other peer can resume it. */
const placeOf = (accountId: number, peer: string) => `resume ${accountId} ${peer}`;

/** The token with which a peer may resume its session, on any node. */
export const sealResumption = (
  sealer: Sealer,
  accountId: number,
  peer: string,
  sessionId: string,
) => sealer.seal(sessionId, placeOf(accountId, peer));

/**
 * Returns the session that the client may resume by its query; undefined if it does not ask to, or its token
 * is not valid for it.
 */
export function readResumed(
  { peer, resume }: Query,
  accountId: number,
  sealer: Sealer,
): string | undefined {
  if (!resume) return undefined;
  try {
    const sessionId = sealer.unseal(resume.resumeToken, placeOf(accountId, peer));
    return sessionId === resume.sessionId ? sessionId : undefined;
  } catch {
    // The token is not from this cluster: the client gets a new session.
    return undefined;
  }
}
