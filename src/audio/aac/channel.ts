import type { BitReader } from './bit-reader.ts';
import type { Bands } from './bands.ts';
import { FRAME_SAMPLES, type WindowSequence, type WindowShape } from './filter-bank.ts';
import { readScaleDelta, readSpectrum } from './huffman.ts';
import { readShaping, shape, type Shaping } from './shaping.ts';

/** Parts of one channel of a frame (ISO/IEC 14496-3, 4.4.2.1: ics_info, individual_channel_stream). */

const SEQUENCES: readonly WindowSequence[] = ['long', 'start', 'short', 'stop'];
const SHORT_LINES = 128;
/** Codebooks that do not stand for spectral values. */
const ZERO = 0;
const RESERVED = 12;
const NOISE = 13;
const OPPOSITE = 14;
const IN_PHASE = 15;

const GAIN_OFFSET = 100;
const NOISE_OFFSET = 90;
const NOISE_START = 256;
const MAX_SCALE = 255;
const FULL_SCALE = 2 ** 15;
const MAX_QUANTUM = 8192;
const POWERS = Float64Array.from({ length: MAX_QUANTUM }, (_, i) => i ** (4 / 3));
const scaleOf = (quarters: number) => 2 ** (quarters / 4) / FULL_SCALE;

/** Division of a frame into windows, and of their lines into bands. */
export type Windows = {
  sequence: WindowSequence;
  shape: WindowShape;
  /** Number of windows that share their scale factors, group by group. */
  groups: readonly number[];
  bandCount: number;
  offsets: Uint16Array;
  /** Number of bands to which noise shaping applies. */
  shapedBands: number;
};

/** Reads the windows and bands of a frame (`ics_info`, ISO/IEC 14496-3, 4.4.2.1). @throws {Error} if they are no AAC-LC */
export function readWindows(bits: BitReader, bands: Bands): Windows {
  bits.skip(1);
  const sequence = SEQUENCES[bits.read(2)]!;
  const windowShape = bits.readFlag() ? 'kbd' : 'sine';
  const isShort = sequence === 'short';
  const bandCount = bits.read(isShort ? 4 : 6);
  const offsets = isShort ? bands.short : bands.long;
  if (bandCount > offsets.length - 1) throw new Error('A channel has too many bands.');
  const groups = [1];
  if (isShort) {
    for (let window = 1; window < FRAME_SAMPLES / SHORT_LINES; window += 1) {
      if (bits.readFlag()) groups[groups.length - 1]! += 1;
      else groups.push(1);
    }
  } else if (bits.readFlag()) {
    throw new Error('A channel uses prediction, which AAC-LC does not have.');
  }
  const shapedBands = Math.min(bandCount, isShort ? bands.maxShort : bands.maxLong);
  return { sequence, shape: windowShape, groups, bandCount, offsets, shapedBands };
}

/** One channel; bands are numbered through all groups. */
export type Channel = {
  windows: Windows;
  spectrum: Float32Array;
  /** Codebook of each band. */
  codebooks: Uint8Array;
  /** Factors by which bands of the left channel are multiplied for the right one, where the codebook is one of intensity. */
  intensities: Float32Array;
  shaping: Shaping | undefined;
};

/** @param shared windows that both channels of a pair share */
export function readChannel(bits: BitReader, bands: Bands, shared?: Windows): Channel {
  const gain = bits.read(8);
  const windows = shared ?? readWindows(bits, bands);
  const codebooks = readCodebooks(bits, windows);
  const { scales, intensities } = readScales(bits, codebooks, gain);
  const isShort = windows.sequence === 'short';
  const pulses = bits.readFlag() ? readPulses(bits, windows) : [];
  const shaping = bits.readFlag() ? readShaping(bits, isShort) : undefined;
  if (bits.readFlag()) throw new Error('A channel uses gain control, which AAC-LC does not have.');
  const quanta = readQuanta(bits, windows, codebooks);
  for (const { at, size } of pulses) quanta[at] = quanta[at]! + (quanta[at]! > 0 ? size : -size);
  const spectrum = dequantize(quanta, windows, codebooks, scales);
  return { windows, spectrum, codebooks, intensities, shaping };
}

function readCodebooks(bits: BitReader, { sequence, groups, bandCount }: Windows): Uint8Array {
  const lengthBits = sequence === 'short' ? 3 : 5;
  const escape = 2 ** lengthBits - 1;
  const codebooks = new Uint8Array(groups.length * bandCount);
  for (let group = 0; group < groups.length; group += 1) {
    for (let band = 0; band < bandCount;) {
      const codebook = bits.read(4);
      if (codebook === RESERVED) throw new Error('Invalid codebook.');
      let length = 0;
      let part: number;
      do {
        part = bits.read(lengthBits);
        length += part;
      } while (part === escape);
      if (length === 0 || band + length > bandCount) throw new Error('A section is too long.');
      codebooks.fill(codebook, group * bandCount + band, group * bandCount + band + length);
      band += length;
    }
  }
  return codebooks;
}

function readScales(bits: BitReader, codebooks: Uint8Array, gain: number) {
  const scales = new Float32Array(codebooks.length);
  const intensities = new Float32Array(codebooks.length);
  let [scale, noise, position] = [gain, gain - NOISE_OFFSET, 0];
  let isFirstNoise = true;
  for (const [band, codebook] of codebooks.entries()) {
    if (codebook === ZERO) continue;
    if (codebook === NOISE) {
      noise += isFirstNoise ? bits.read(9) - NOISE_START : readScaleDelta(bits);
      isFirstNoise = false;
      scales[band] = scaleOf(clamp(noise));
    } else if (codebook >= OPPOSITE) {
      position += readScaleDelta(bits);
      intensities[band] = (codebook === IN_PHASE ? 1 : -1) * 2 ** (-clamp(position) / 4);
    } else {
      scale += readScaleDelta(bits);
      if (scale < 0 || scale > MAX_SCALE) throw new Error('A scale factor is out of range.');
      scales[band] = scaleOf(scale - GAIN_OFFSET);
    }
  }
  return { scales, intensities };
}

const clamp = (quarters: number) => Math.max(-100, Math.min(155, quarters));

function readPulses(bits: BitReader, { sequence, offsets }: Windows) {
  const count = bits.read(2) + 1;
  const band = bits.read(6);
  if (sequence === 'short' || band >= offsets.length) throw new Error('A pulse is out of range.');
  let at = offsets[band]!;
  return Array.from({ length: count }, () => {
    at += bits.read(5);
    if (at >= FRAME_SAMPLES) throw new Error('A pulse is out of range.');
    return { at, size: bits.read(4) };
  });
}

/** Calls `visit` for each band of each window, with the position of its lines. */
export function eachBand(
  { groups, bandCount, offsets }: Windows,
  visit: (band: number, from: number, to: number) => void,
): void {
  let window = 0;
  for (const [group, length] of groups.entries()) {
    for (let band = 0; band < bandCount; band += 1) {
      for (let i = 0; i < length; i += 1) {
        const start = (window + i) * SHORT_LINES;
        visit(group * bandCount + band, start + offsets[band]!, start + offsets[band + 1]!);
      }
    }
    window += length;
  }
}

function readQuanta(bits: BitReader, windows: Windows, codebooks: Uint8Array): Int16Array {
  const quanta = new Int16Array(FRAME_SAMPLES);
  eachBand(windows, (band, from, to) => {
    const codebook = codebooks[band]!;
    if (codebook > ZERO && codebook < RESERVED) {
      readSpectrum(bits, codebook, quanta, from, to - from);
    }
  });
  return quanta;
}

function dequantize(
  quanta: Int16Array,
  windows: Windows,
  codebooks: Uint8Array,
  scales: Float32Array,
): Float32Array {
  const spectrum = new Float32Array(FRAME_SAMPLES);
  eachBand(windows, (band, from, to) => {
    const scale = scales[band]!;
    if (codebooks[band] === NOISE) {
      fillWithNoise(spectrum.subarray(from, to), scale);
    } else if (scale !== 0) {
      for (let i = from; i < to; i += 1) {
        const size = POWERS[Math.min(MAX_QUANTUM - 1, Math.abs(quanta[i]!))]!;
        spectrum[i] = scale * (quanta[i]! < 0 ? -size : size);
      }
    }
  });
  return spectrum;
}

/** Fills lines with noise; `size` is the root of its energy. */
function fillWithNoise(lines: Float32Array, size: number): void {
  let energy = 0;
  for (let i = 0; i < lines.length; i += 1) {
    const value = Math.random() - 0.5;
    lines[i] = value;
    energy += value * value;
  }
  const scale = size / Math.sqrt(energy || 1);
  for (let i = 0; i < lines.length; i += 1) lines[i]! *= scale;
}

/** Undoes noise shaping, the last step before the filter bank. */
export function finish({ windows, spectrum, shaping }: Channel): Float32Array {
  if (shaping) {
    for (const [window, filters] of shaping.entries()) {
      shape(spectrum.subarray(window * SHORT_LINES), filters, windows.offsets, windows.shapedBands);
    }
  }
  return spectrum;
}

export const isNoise = (codebook: number): boolean => codebook === NOISE;
export const isIntensity = (codebook: number): boolean => codebook >= OPPOSITE;
