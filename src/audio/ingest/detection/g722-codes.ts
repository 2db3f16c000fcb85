/** Recognition of G.722 by its codes, which do not show the sound without those before them: some are more frequent than others. */

/** Bits of codes that no encoder produces. */
const NEVER = 20;
/** Bits of each code of the lower band, by its frequency in speech, music and noise at any level. */
// prettier-ignore
const LOW_BITS = [
  NEVER, NEVER, NEVER, NEVER, 11.5, 12, 11.5, 11.5, 11, 10.5, 10, 9.5, 9, 8.5, 8, 7.7,
  7.3, 7, 6.7, 6.4, 6.2, 6, 5.8, 5.7, 5.5, 5.4, 5.3, 5.1, 5, 4.9, 4.7, 4.5,
  11.5, 12, 11.5, 11, 10.5, 10, 9.3, 8.9, 8.4, 8, 7.6, 7.3, 7, 6.7, 6.4, 6.2,
  6, 5.8, 5.7, 5.4, 5.2, 5, 4.8, 4.8, 4.6, 4.5, 4.2, 4.1, 4.4, 4.8, 4.7, 5,
];
/** Bits of each code of the upper band. */
const HIGH_BITS = [3.8, 2.1, 2.5, 0.95];
const LOW_MASK = 63;
const HIGH_SHIFT = 6;

/** Returns the mean number of bits a byte if the bytes are G.722. */
export function g722BitsPerByte(bytes: Buffer): number {
  let bits = 0;
  for (const byte of bytes) bits += LOW_BITS[byte & LOW_MASK]! + HIGH_BITS[byte >> HIGH_SHIFT]!;
  return bits / bytes.length;
}

/** Returns the share of bytes with a code that no encoder produces: 0 for G.722, one in 16 for random bytes. */
export function impossibleShareOf(bytes: Buffer): number {
  let impossible = 0;
  for (const byte of bytes) if (LOW_BITS[byte & LOW_MASK] === NEVER) impossible += 1;
  return impossible / bytes.length;
}
