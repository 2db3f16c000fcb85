import { PartylineError } from '../protocol/errors.ts';
import type { SuspendedPeers } from '../session/suspended-peers.ts';
import type { Sessions } from './sessions.ts';

/**
 * Closes a peer's connection to this node, and removes its kept place here.
 * @returns false if the peer has neither here
 */
export function kick(
  { sessions, places }: { sessions: Sessions; places: SuspendedPeers },
  accountId: number,
  peer: string,
): boolean {
  const session = sessions.get(accountId, peer);
  session?.fail(new PartylineError('forbidden', 'Removed by an operator.'));
  const kept = places.take(accountId, peer);
  kept?.end('forbidden');
  return session !== undefined || kept !== undefined;
}
