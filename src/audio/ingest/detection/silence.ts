/** True for a message of one byte repeated: what every format of samples makes of nothing at all. */
export function isDigitalSilence(message: Buffer): boolean {
  for (let i = 1; i < message.length; i += 1) if (message[i] !== message[0]) return false;
  return message.length > 8;
}

/** How fast 16-bit mono goes at the rates that are usual for it, bytes a millisecond. */
const USUAL_BYTES_PER_MS = [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 44_100, 48_000].map(
  (rateHz) => (2 * rateHz) / 1000,
);
/** As exact as a pace is known after half a second. */
const PACE_TOLERANCE = 0.04;

/**
 * Whether digital silence may be that of 16-bit samples as well as of float ones: what the one understands is noise at full
 * scale to the other. At the paces that are usual for 16 bits, float is as good as never sent.
 */
export function isOfEitherWidth(silence: Buffer, bytesPerMs: number): boolean {
  if (silence[0] !== 0) return false;
  return USUAL_BYTES_PER_MS.every((usual) => Math.abs(bytesPerMs / usual - 1) > PACE_TOLERANCE);
}
