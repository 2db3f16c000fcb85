/** How G.722 tells by its codes, which say nothing of the sound without those before them: some are more frequent than others. */

/** Codes that no encoder makes. */
const NEVER = 20;
/** Bits of each code of the lower band, as frequent as they are in speech, music and noise at any level. */
// prettier-ignore
const LOW_BITS = [
  NEVER, NEVER, NEVER, NEVER, 11.5, 12, 11.5, 11.5, 11, 10.5, 10, 9.5, 9, 8.5, 8, 7.7,
  7.3, 7, 6.7, 6.4, 6.2, 6, 5.8, 5.7, 5.5, 5.4, 5.3, 5.1, 5, 4.9, 4.7, 4.5,
  11.5, 12, 11.5, 11, 10.5, 10, 9.3, 8.9, 8.4, 8, 7.6, 7.3, 7, 6.7, 6.4, 6.2,
  6, 5.8, 5.7, 5.4, 5.2, 5, 4.8, 4.8, 4.6, 4.5, 4.2, 4.1, 4.4, 4.8, 4.7, 5,
];
/** The same of the upper band. */
const HIGH_BITS = [3.8, 2.1, 2.5, 0.95];
const LOW_MASK = 63;
const HIGH_SHIFT = 6;

/** Returns the bits that a byte holds on average if the bytes are G.722. */
export function g722BitsPerByte(bytes: Buffer): number {
  let bits = 0;
  for (const byte of bytes) bits += LOW_BITS[byte & LOW_MASK]! + HIGH_BITS[byte >> HIGH_SHIFT]!;
  return bits / bytes.length;
}

/** How many of the bytes hold a code that no encoder makes: none of G.722, one in 16 of random bytes. */
export function impossibleShareOf(bytes: Buffer): number {
  let impossible = 0;
  for (const byte of bytes) if (LOW_BITS[byte & LOW_MASK] === NEVER) impossible += 1;
  return impossible / bytes.length;
}
