import type { FastifyBaseLogger } from 'fastify';
import type { SuspendedPeers } from '../session/suspended-peers.ts';
import type { Sessions } from './sessions.ts';

/** Peers of this node: connected ones, and those whose places are kept. */
type Clients = { sessions: Sessions; places: SuspendedPeers };

/**
 * Mutes or unmutes a peer of this node: its connected client and its kept place. If its media worker dies
 * meanwhile, the setting applies to the replacement. Never rejects.
 * @returns false if the peer has neither here
 */
export async function mute(
  { sessions, places }: Clients,
  log: FastifyBaseLogger,
  accountId: number,
  peer: string,
  isMuted: boolean,
): Promise<boolean> {
  const session = sessions.get(accountId, peer);
  const kept = places.get(accountId, peer);
  for (const outcome of await Promise.allSettled([
    session?.setMuted(isMuted),
    kept?.setMuted(isMuted),
  ])) {
    if (outcome.status === 'fulfilled') continue;
    const fault: unknown = outcome.reason;
    log.warn(
      { err: fault, account: accountId, peer },
      'media of the peer lost while muting or unmuting it',
    );
  }
  return session !== undefined || kept !== undefined;
}
