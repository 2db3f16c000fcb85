import { collidingBytes } from '../../test/support/colliding-bytes.ts';

/** Constants by which the detector of formats hashed bytes once: all bits of each look random. */
const FORMER_HASHES = Int32Array.from({ length: 256 }, (_, byte) => {
  const mixed = Math.imul(byte + 1, 0x9e3779b1);
  return Math.imul(mixed ^ (mixed >>> 15), 0x85ebca77);
});
/** Mask of the slots of the largest table that a detector makes: of 64 KB. */
const FORMER_SLOTS = 2 ** 18 - 1;
const COLLIDING_MESSAGE_BYTES = 21_600;
const COLLIDING_MESSAGES = 3;

let colliding: Buffer[] | undefined;

/** Returns messages whose bytes are chosen against {@link FORMER_HASHES}, with which 8 KB took 40 ms. */
export const collidingMessages = (): Buffer[] => (colliding ??= chooseColliding());

function chooseColliding(): Buffer[] {
  const bytes = collidingBytes(COLLIDING_MESSAGES * COLLIDING_MESSAGE_BYTES, {
    ofBytes: FORMER_HASHES,
    slotOf: (hash) => (hash >>> 1) & FORMER_SLOTS,
  });
  return Array.from({ length: COLLIDING_MESSAGES }, (_, n) =>
    bytes.subarray(n * COLLIDING_MESSAGE_BYTES, (n + 1) * COLLIDING_MESSAGE_BYTES),
  );
}
