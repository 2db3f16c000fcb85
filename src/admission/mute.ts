import type { FastifyBaseLogger } from 'fastify';
import type { SuspendedPeers } from '../session/suspended-peers.ts';
import type { Sessions } from './sessions.ts';

/** Peers of this node, connected and away. */
type Clients = { sessions: Sessions; places: SuspendedPeers };

/**
 * Mutes a peer of this node, or ends that: its client, if that is connected, and the place that is kept for it. If its media worker
 * dies meanwhile, the setting holds for what takes its place. Never rejects.
 * @returns false if there is neither
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
      'the media of a peer were lost as it was muted',
    );
  }
  return session !== undefined || kept !== undefined;
}
