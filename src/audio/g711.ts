/**
 * G.711 (ITU-T, 1988): 8-bit logarithmic samples at 8 kHz, decoded by table; the encoder finds the segment by
 * counting leading zeros.
 */

export type G711Law = 'pcmu' | 'pcma';

const MU_BIAS = 0x84;
const MU_CLIP = 32635;
const A_CLIP = 32635;

function decodeMu(byte: number): number {
  const code = ~byte & 0xff;
  const magnitude = (((code & 0x0f) << 3) + MU_BIAS) << ((code >> 4) & 7);
  return code & 0x80 ? MU_BIAS - magnitude : magnitude - MU_BIAS;
}

function decodeA(byte: number): number {
  const code = byte ^ 0x55;
  const segment = (code >> 4) & 7;
  const base = ((code & 0x0f) << 4) + 8;
  const magnitude = segment === 0 ? base : (base + 0x100) << (segment - 1);
  return code & 0x80 ? magnitude : -magnitude;
}

function encodeMu(value: number): number {
  const magnitude = Math.min(Math.abs(value), MU_CLIP) + MU_BIAS;
  const segment = 31 - Math.clz32(magnitude) - 7;
  const code = (segment << 4) | ((magnitude >> (segment + 3)) & 0x0f);
  return ~(value < 0 ? code | 0x80 : code) & 0xff;
}

function encodeA(value: number): number {
  const magnitude = Math.min(value < 0 ? -value - 1 : value, A_CLIP);
  const segment = magnitude < 256 ? 0 : 31 - Math.clz32(magnitude) - 7;
  const code = (segment << 4) | ((magnitude >> (segment === 0 ? 4 : segment + 3)) & 0x0f);
  return (value < 0 ? code : code | 0x80) ^ 0x55;
}

const tableOf = (decode: (byte: number) => number) =>
  Int16Array.from({ length: 256 }, (_, byte) => decode(byte));

/** 16-bit value of each byte. */
export const G711_VALUES: Record<G711Law, Int16Array> = {
  pcmu: tableOf(decodeMu),
  pcma: tableOf(decodeA),
};

/** Quantization step at the value of each byte, in 16-bit units. */
export const G711_STEPS: Record<G711Law, Int16Array> = {
  pcmu: tableOf((byte) => 8 << ((~byte >> 4) & 7)),
  pcma: tableOf((byte) => 16 << Math.max(0, (((byte ^ 0x55) >> 4) & 7) - 1)),
};

/** Returns the byte of a 16-bit value. */
export function encodeG711(value: number, law: G711Law): number {
  return law === 'pcmu' ? encodeMu(value) : encodeA(value);
}
