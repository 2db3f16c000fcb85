import type { FastifyBaseLogger } from 'fastify';
import type { Sessions } from './sessions.ts';

/**
 * Mutes a peer that is connected to this node, or ends that. If its media worker dies meanwhile, the setting holds for what
 * takes its place. Never rejects.
 * @returns false if it is not connected here
 */
export async function mute(
  sessions: Sessions,
  log: FastifyBaseLogger,
  accountId: number,
  peer: string,
  isMuted: boolean,
): Promise<boolean> {
  const session = sessions.get(accountId, peer);
  if (!session) return false;
  try {
    await session.setMuted(isMuted);
  } catch (fault) {
    log.warn(
      { err: fault, account: accountId, peer },
      'the media of a peer were lost as it was muted',
    );
  }
  return true;
}
