/** Hashes with which a detector of repeated windows of 32 bytes works, as far as a client knows them. */
export type KnownHashes = {
  /** Number of each byte: the hash of a window is twice the hash before, plus the number of the last byte. */
  ofBytes: Int32Array;
  /** Returns the slot of a hash table at which the search for a hash begins. */
  slotOf: (hash: number) => number;
};

/**
 * Returns bytes whose windows collide in a hash table with linear probing: each byte is chosen so that the window that it ends is new, and its slot
 * the lowest.
 */
export function collidingBytes(length: number, { ofBytes, slotOf }: KnownHashes): Buffer {
  const bytes = Buffer.alloc(length);
  const seen = new Set<number>();
  let hash = 0;
  for (let at = 0; at < length; at += 1) {
    let best = { byte: 0, slot: Infinity, hash: 0 };
    for (let byte = 0; byte < ofBytes.length; byte += 1) {
      const next = (Math.imul(hash, 2) + ofBytes[byte]!) | 0;
      const slot = slotOf(next);
      // The lowest bit is no part of an entry.
      if (slot < best.slot && !seen.has(next | 1)) best = { byte, slot, hash: next };
    }
    bytes[at] = best.byte;
    hash = best.hash;
    seen.add(hash | 1);
  }
  return bytes;
}
