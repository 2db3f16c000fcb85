/** Samples are -1…1 in Float32Array inside the gateway; 16-bit little-endian on the wire. */

const FULL_SCALE = 32768;

/** Reads whole little-endian 16-bit samples; `bytes.length` must be even. */
export function readS16le(bytes: Buffer): Float32Array {
  const samples = new Float32Array(bytes.length >> 1);
  for (let i = 0; i < samples.length; i += 1) samples[i] = bytes.readInt16LE(i * 2) / FULL_SCALE;
  return samples;
}

/** Writes samples as little-endian 16-bit, saturating what is beyond full scale. */
export function writeS16le(samples: Float32Array): Buffer {
  const bytes = Buffer.allocUnsafe(samples.length * 2);
  for (let i = 0; i < samples.length; i += 1) {
    const value = Math.round(samples[i]! * FULL_SCALE);
    const saturated = value > 32767 ? 32767 : value < -32768 ? -32768 : value;
    bytes[i * 2] = saturated & 0xff;
    bytes[i * 2 + 1] = (saturated >> 8) & 0xff;
  }
  return bytes;
}
