import type { Sessions } from './sessions.ts';

/**
 * Mutes a peer that is connected to this node, or ends that.
 * @returns false if it is not connected here
 * @throws {Error} if its media worker dies or hangs
 */
export async function mute(
  sessions: Sessions,
  accountId: number,
  peer: string,
  isMuted: boolean,
): Promise<boolean> {
  const session = sessions.get(accountId, peer);
  await session?.setMuted(isMuted);
  return session !== undefined;
}
