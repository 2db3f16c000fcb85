/** Widths of the scale factor bands (ISO/IEC 14496-3, 4.5.4): `[width, times]`. */
type Widths = readonly (readonly [width: number, times: number])[];

function offsetsOf(widths: Widths): Uint16Array {
  const offsets = [0];
  for (const [width, times] of widths) {
    for (let i = 0; i < times; i += 1) offsets.push(offsets.at(-1)! + width);
  }
  return Uint16Array.from(offsets);
}

// prettier-ignore
const LONG = {
  '96': offsetsOf([[4, 14], [8, 5], [12, 5], [16, 2], [24, 1], [28, 1], [36, 1], [44, 1], [64, 11]]),
  '64': offsetsOf([[4, 14], [8, 4], [12, 3], [16, 3], [20, 1], [24, 2], [28, 1], [36, 1], [40, 18]]),
  '48': offsetsOf([[4, 10], [8, 7], [12, 4], [16, 2], [20, 2], [24, 2], [28, 2], [32, 19], [96, 1]]),
  '32': offsetsOf([[4, 10], [8, 7], [12, 4], [16, 2], [20, 2], [24, 2], [28, 2], [32, 22]]),
  '24': offsetsOf([[4, 11], [8, 10], [12, 4], [16, 3], [20, 2], [24, 2], [28, 2], [32, 1], [36, 2], [40, 1], [44, 1], [48, 1], [52, 2], [64, 5]]),
  '16': offsetsOf([[8, 11], [12, 9], [16, 4], [20, 3], [24, 2], [28, 2], [32, 1], [36, 1], [40, 2], [44, 1], [48, 1], [52, 1], [56, 1], [60, 1], [64, 3]]),
  '8': offsetsOf([[12, 13], [16, 7], [20, 4], [24, 3], [28, 2], [32, 1], [36, 2], [40, 1], [44, 1], [48, 1], [52, 1], [56, 1], [60, 1], [64, 1], [80, 1]]),
};
// prettier-ignore
const SHORT = {
  '96': offsetsOf([[4, 6], [8, 3], [16, 1], [28, 1], [36, 1]]),
  '48': offsetsOf([[4, 5], [8, 3], [12, 3], [16, 3]]),
  '24': offsetsOf([[4, 7], [8, 3], [12, 2], [16, 2], [20, 1]]),
  '16': offsetsOf([[4, 8], [8, 2], [12, 2], [16, 1], [20, 2]]),
  '8': offsetsOf([[4, 7], [8, 4], [12, 1], [16, 1], [20, 2]]),
};

export type Bands = {
  /** Offsets for windows of 1024 lines and of 128. */
  long: Uint16Array;
  short: Uint16Array;
  /** Maximum number of bands to which noise shaping applies. */
  maxLong: number;
  maxShort: number;
};

const bands = (
  long: keyof typeof LONG,
  short: keyof typeof SHORT,
  maxLong: number,
  maxShort: number,
): Bands => ({ long: LONG[long], short: SHORT[short], maxLong, maxShort });

/** Bands by the index of the sample rate: 96, 88.2, 64, 48, 44.1, 32, 24, 22.05, 16, 12, 11.025, 8 and 7.35 kHz. */
export const BANDS: readonly Bands[] = [
  bands('96', '96', 31, 9),
  bands('96', '96', 31, 9),
  bands('64', '96', 34, 10),
  bands('48', '48', 40, 14),
  bands('48', '48', 42, 14),
  bands('32', '48', 51, 14),
  bands('24', '24', 46, 14),
  bands('24', '24', 46, 14),
  bands('16', '16', 42, 14),
  bands('16', '16', 42, 14),
  bands('16', '16', 42, 14),
  bands('8', '8', 39, 14),
  bands('8', '8', 39, 14),
];
