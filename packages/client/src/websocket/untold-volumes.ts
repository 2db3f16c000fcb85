import type { AudioParts, SoundSettings } from '../room-audio.ts';

/**
 * Number of volumes up to which the gateway is told all of them; beyond it, only those of peers in the room. It keeps at most
 * 1000, and one message may end as many of these as it sets others.
 */
const MAX_KEPT_VOLUMES = 500;

/** Maximum length of the volumes in one message, bytes: the gateway closes a client that sends more than 64 KiB. */
const MAX_BYTES = 32 * 1024;
/** Maximum length of a UTF-16 code unit in JSON, bytes of UTF-8; names have no control characters, which are longer. */
const UNIT_BYTES = 3;
/** Maximum length of a gain with all that stands between names, bytes. */
const GAIN_BYTES = 32;

/** Volumes for one message. */
type UntoldVolumes = {
  volume: Record<string, number>;
  /** True if others wait for another message. */
  hasMore: boolean;
};

/**
 * Returns volumes that the gateway must be told, and notes that it is told: all of them, or those of peers in the room if
 * they are many. Undefined if it knows them all.
 */
export function takeUntoldVolumes(
  settings: SoundSettings,
  peers: AudioParts['peers'],
): UntoldVolumes | undefined {
  const { volumes } = settings;
  const told = (settings.toldVolumes ??= new Map<string, number>());
  const keepsAll = volumes.size <= MAX_KEPT_VOLUMES;
  const untold = new Map<string, number>();
  let bytes = 0;
  for (const peer of [...told.keys(), ...volumes.keys()]) {
    const isKept = keepsAll || peers.has(peer);
    const gain = isKept ? (volumes.get(peer) ?? 1) : 1;
    if (gain === (told.get(peer) ?? 1)) continue;
    bytes += peer.length * UNIT_BYTES + GAIN_BYTES;
    if (bytes > MAX_BYTES) return { volume: Object.fromEntries(untold), hasMore: true };
    if (gain === 1) told.delete(peer);
    else told.set(peer, gain);
    untold.set(peer, gain);
  }
  return untold.size > 0 ? { volume: Object.fromEntries(untold), hasMore: false } : undefined;
}
