import type { AudioParts, SoundSettings } from '../room-audio.ts';

/**
 * Number of volumes up to which the gateway is told all of them; beyond it, only those of peers in the room. It keeps at most
 * 1000, and one message may end as many of these as it sets others.
 */
const MAX_KEPT_VOLUMES = 500;

/**
 * Returns the volumes that the gateway must be told, and notes that it is told: all of them, or those of peers in the room if
 * they are many. Undefined if it knows them all.
 */
export function takeUntoldVolumes(
  settings: SoundSettings,
  peers: AudioParts['peers'],
): Record<string, number> | undefined {
  const { volumes } = settings;
  const told = (settings.toldVolumes ??= new Map<string, number>());
  const keepsAll = volumes.size <= MAX_KEPT_VOLUMES;
  const untold = [...told.keys(), ...volumes.keys()].flatMap((peer) => {
    const isKept = keepsAll || peers.has(peer);
    const gain = isKept ? (volumes.get(peer) ?? 1) : 1;
    if (gain === (told.get(peer) ?? 1)) return [];
    if (gain === 1) told.delete(peer);
    else told.set(peer, gain);
    return [[peer, gain] as const];
  });
  return untold.length > 0 ? Object.fromEntries(untold) : undefined;
}
