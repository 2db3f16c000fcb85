import type { BitReader } from './bit-reader.ts';
import { type Codebook, SCALE_FACTORS, SPECTRAL } from './codebooks.ts';

const DIGITS = 2;
/** Binary tree: two entries for each node, each of them the next node, or ~symbol. */
type Tree = Int16Array;

function treeOf({ lengths, symbols }: Codebook): Tree {
  const count = symbols.length / DIGITS;
  const tree = new Int16Array(2 * (count - 1));
  let [nodes, code, length, symbol] = [1, 0, 0, 0];
  for (const ofLength of lengths) {
    code *= 2;
    length += 1;
    for (let i = 0; i < ofLength; i += 1) {
      let at = 0;
      for (let bit = length - 1; bit > 0; bit -= 1) {
        const branch = 2 * at + ((code >>> bit) & 1);
        if (tree[branch] === 0) {
          tree[branch] = nodes;
          nodes += 1;
        }
        at = tree[branch]!;
      }
      const digits = symbols.slice(DIGITS * symbol, DIGITS * symbol + DIGITS);
      tree[2 * at + (code & 1)] = ~Number.parseInt(digits, 36);
      code += 1;
      symbol += 1;
    }
  }
  return tree;
}

function readSymbol(bits: BitReader, tree: Tree): number {
  let at = 0;
  do at = tree[2 * at + bits.read(1)]!;
  while (at > 0);
  return ~at;
}

const SCALE_FACTOR_TREE = treeOf(SCALE_FACTORS);
const SCALE_FACTOR_OFFSET = 60;

/** Reads the difference of a scale factor from the previous one. */
export const readScaleDelta = (bits: BitReader): number =>
  readSymbol(bits, SCALE_FACTOR_TREE) - SCALE_FACTOR_OFFSET;

/** Meaning of the symbols of each spectral codebook: values are digits to a base, less an offset; or magnitudes, whose signs follow. */
const MAPPINGS = [
  { base: 3, values: 4, offset: 1 },
  { base: 3, values: 4, offset: 1 },
  { base: 3, values: 4, offset: 0 },
  { base: 3, values: 4, offset: 0 },
  { base: 9, values: 2, offset: 4 },
  { base: 9, values: 2, offset: 4 },
  { base: 8, values: 2, offset: 0 },
  { base: 8, values: 2, offset: 0 },
  { base: 13, values: 2, offset: 0 },
  { base: 13, values: 2, offset: 0 },
  { base: 17, values: 2, offset: 0 },
] as const;
const SPECTRAL_TREES = SPECTRAL.map(treeOf);
const ESCAPE_CODEBOOK = 11;
const ESCAPE = 16;
const MAX_ESCAPE_BITS = 12;

/**
 * Reads the quantized values of some lines.
 * @param codebook 1…11
 * @param to receives the values, from `at` on
 */
export function readSpectrum(
  bits: BitReader,
  codebook: number,
  to: Int16Array,
  at: number,
  count: number,
): void {
  const tree = SPECTRAL_TREES[codebook - 1]!;
  const { base, values, offset } = MAPPINGS[codebook - 1]!;
  for (let from = at; from < at + count; from += values) {
    let symbol = readSymbol(bits, tree);
    for (let i = from + values - 1; i >= from; i -= 1) {
      to[i] = (symbol % base) - offset;
      symbol = Math.floor(symbol / base);
    }
    if (offset > 0) continue;
    for (let i = from; i < from + values; i += 1) {
      if (to[i] !== 0 && bits.readFlag()) to[i] = -to[i]!;
    }
    if (codebook !== ESCAPE_CODEBOOK) continue;
    for (let i = from; i < from + values; i += 1) {
      if (Math.abs(to[i]!) === ESCAPE) to[i] = Math.sign(to[i]!) * readEscape(bits);
    }
  }
}

function readEscape(bits: BitReader): number {
  let length = 4;
  while (bits.readFlag()) length += 1;
  if (length > MAX_ESCAPE_BITS) throw new Error('A value is out of range.');
  return (1 << length) + bits.read(length);
}
