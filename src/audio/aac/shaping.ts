import type { BitReader } from './bit-reader.ts';

/** Temporal noise shaping (ISO/IEC 14496-3, 4.6.9): filters along the lines of a spectrum. */

const MAX_ORDER = 20;

type Filter = { bands: number; isDownward: boolean; coefficients: number[] };
/** Filters of each window. */
export type Shaping = Filter[][];

/** Reads the filters of each window of a channel (`tns_data`). @throws {Error} if a filter is longer than AAC-LC allows */
export function readShaping(bits: BitReader, isShort: boolean): Shaping {
  const [countBits, bandBits, orderBits] = isShort ? ([1, 4, 3] as const) : ([2, 6, 5] as const);
  return Array.from({ length: isShort ? 8 : 1 }, () => {
    const count = bits.read(countBits);
    const resolution = count > 0 ? bits.read(1) + 3 : 0;
    return Array.from({ length: count }, () => {
      const bands = bits.read(bandBits);
      const order = bits.read(orderBits);
      if (order > MAX_ORDER) throw new Error('A filter is too long.');
      if (order === 0) return { bands, isDownward: false, coefficients: [] };
      const isDownward = bits.readFlag();
      const coefficientBits = resolution - bits.read(1);
      const reflections = Array.from({ length: order }, () =>
        reflectionOf(bits.read(coefficientBits), coefficientBits, resolution),
      );
      return { bands, isDownward, coefficients: coefficientsOf(reflections) };
    });
  });
}

function reflectionOf(code: number, bits: number, resolution: number): number {
  const value = code >= 2 ** (bits - 1) ? code - 2 ** bits : code;
  const steps = 2 ** (resolution - 1) + (value < 0 ? 0.5 : -0.5);
  return Math.sin((value * Math.PI) / 2 / steps);
}

/** Converts the reflections of a lattice filter to coefficients of prediction. */
function coefficientsOf(reflections: number[]): number[] {
  let coefficients: number[] = [];
  for (const reflection of reflections) {
    const mirrored = coefficients.toReversed();
    coefficients = coefficients.map((value, i) => value + reflection * mirrored[i]!);
    coefficients.push(reflection);
  }
  return coefficients;
}

/**
 * Filters the lines of one window.
 * @param offsets first lines of its bands
 * @param mostBands number of bands above which lines are not filtered
 */
export function shape(
  lines: Float32Array,
  filters: Filter[],
  offsets: Uint16Array,
  mostBands: number,
): void {
  let top = offsets.length - 1;
  for (const { bands, isDownward, coefficients } of filters) {
    const bottom = Math.max(0, top - bands);
    const from = offsets[Math.min(bottom, mostBands)]!;
    const to = offsets[Math.min(top, mostBands)]!;
    top = bottom;
    const step = isDownward ? -1 : 1;
    for (let n = 0; n < to - from; n += 1) {
      const at = isDownward ? to - 1 - n : from + n;
      const reach = Math.min(n, coefficients.length);
      let value = lines[at]!;
      for (let k = 1; k <= reach; k += 1) value -= coefficients[k - 1]! * lines[at - k * step]!;
      lines[at] = value;
    }
  }
}
