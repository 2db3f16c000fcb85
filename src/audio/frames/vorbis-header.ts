import { LsbBitReader } from './lsb-bit-reader.ts';

/** Headers of a Vorbis stream (Vorbis I §4.2): the durations of its packets, and the resources that its decoder needs. */

/** Length of an identification header, bytes. */
export const VORBIS_IDENTIFICATION_BYTES = 30;
/** Type of an identification header, its first byte. That of a packet of sound is even. */
export const VORBIS_IDENTIFICATION_TYPE = 1;
const SETUP_TYPE = 5;
/** Length of the type, and `vorbis`. */
const PREFIX_BYTES = 7;

const MAX_CHANNELS = 8;
const MIN_RATE_HZ = 4000;
const MAX_RATE_HZ = 192_000;
/** Exponents of the shortest and longest block: 64 and 8192 samples. */
const MIN_BLOCK_EXPONENT = 6;
const MAX_BLOCK_EXPONENT = 13;

/** Maximum length of a setup, bytes: three times as long as any that libvorbis writes. */
const MAX_SETUP_BYTES = 32_768;
/** Maximum entries of all codebooks, and values of their vectors, of which a decoder builds tables. libvorbis writes at most a third. */
const MAX_ENTRIES = 65_536;
const MAX_VALUES = 262_144;
const MAX_CODE_BITS = 32;
const CODEBOOK_SYNC = 0x564342;

/** Content of an identification header. */
export type Identification = {
  channels: number;
  rateHz: number;
  /** Samples of a short block and of a long one. */
  blockSamples: readonly [number, number];
};

const isOfType = (packet: Uint8Array, type: number): boolean =>
  packet[0] === type && Buffer.from(packet.subarray(1, PREFIX_BYTES)).equals(Buffer.from('vorbis'));

/** @throws {Error} if the packet is not an identification header, or announces a stream that is not decoded */
export function parseIdentification(packet: Buffer): Identification {
  const isIdentification =
    packet.length === VORBIS_IDENTIFICATION_BYTES &&
    isOfType(packet, VORBIS_IDENTIFICATION_TYPE) &&
    packet.readUInt32LE(PREFIX_BYTES) === 0;
  if (!isIdentification)
    throw new Error('The stream does not begin with a Vorbis identification header.');
  const channels = packet[11]!;
  const rateHz = packet.readUInt32LE(12);
  const [short, long] = [packet[28]! & 15, packet[28]! >> 4];
  if (channels < 1 || channels > MAX_CHANNELS)
    throw new Error('The stream has too many channels, or none.');
  if (rateHz < MIN_RATE_HZ || rateHz > MAX_RATE_HZ)
    throw new Error('The sample rate is out of range.');
  const areBlocks = short >= MIN_BLOCK_EXPONENT && short <= long && long <= MAX_BLOCK_EXPONENT;
  if (!areBlocks) throw new Error('The block sizes are not valid.');
  return { channels, rateHz, blockSamples: [2 ** short, 2 ** long] };
}

/**
 * Reads a setup header to its end.
 * @returns for each mode, true if its blocks are long
 * @throws {Error} if the header is not valid, or would need more memory and time than those of any encoder
 */
export function parseSetup(packet: Buffer, channels: number): boolean[] {
  if (!isOfType(packet, SETUP_TYPE))
    throw new Error('The third Vorbis header is not a setup header.');
  if (packet.length > MAX_SETUP_BYTES) throw new Error('The setup header is too long.');
  const bits = new LsbBitReader(packet.subarray(PREFIX_BYTES));
  skipCodebooks(bits);
  const times = bits.read(6) + 1;
  for (let i = 0; i < times; i += 1) if (bits.read(16) !== 0) throw invalid();
  skipFloors(bits);
  skipResidues(bits);
  skipMappings(bits, channels);
  const modes = Array.from({ length: bits.read(6) + 1 }, () => {
    const isLong = bits.readFlag();
    if (bits.read(16) !== 0 || bits.read(16) !== 0) throw invalid();
    bits.skip(8);
    return isLong;
  });
  if (!bits.readFlag()) throw invalid();
  return modes;
}

const invalid = () => new Error('The setup header is not valid.');

/** Returns the number of bits of a value: 3 for 7. */
const bitsOfValue = (value: number): number => 32 - Math.clz32(value);

/** Skips the codebooks (§3.2.1). */
function skipCodebooks(bits: LsbBitReader): void {
  const codebooks = bits.read(8) + 1;
  let [allEntries, allValues] = [0, 0];
  for (let i = 0; i < codebooks; i += 1) {
    if (bits.read(24) !== CODEBOOK_SYNC) throw invalid();
    const dimensions = bits.read(16);
    const entries = bits.read(24);
    allEntries += entries;
    allValues += entries * dimensions;
    const isTooMuch = allEntries > MAX_ENTRIES || allValues > MAX_VALUES;
    if (isTooMuch) throw new Error('The codebooks are too long.');
    if (entries === 0 || dimensions === 0) throw invalid();
    if (bits.readFlag()) skipOrderedLengths(bits, entries);
    else skipLengths(bits, entries);
    const lookup = bits.read(4);
    if (lookup > 2) throw invalid();
    if (lookup > 0) skipVectors(bits, lookup === 1, entries, dimensions);
  }
}

function skipOrderedLengths(bits: LsbBitReader, entries: number): void {
  let length = bits.read(5) + 1;
  for (let entry = 0; entry < entries; length += 1) {
    entry += bits.read(bitsOfValue(entries - entry));
    if (entry > entries || length > MAX_CODE_BITS) throw invalid();
  }
}

function skipLengths(bits: LsbBitReader, entries: number): void {
  const isSparse = bits.readFlag();
  for (let i = 0; i < entries; i += 1) if (!isSparse || bits.readFlag()) bits.skip(5);
}

function skipVectors(
  bits: LsbBitReader,
  isLattice: boolean,
  entries: number,
  dimensions: number,
): void {
  bits.skip(64);
  const valueBits = bits.read(4) + 1;
  bits.skip(1);
  bits.skip(valueBits * (isLattice ? latticeValues(entries, dimensions) : entries * dimensions));
}

/** Returns the greatest number whose power of `dimensions` is at most `entries` (§9.2.3). */
function latticeValues(entries: number, dimensions: number): number {
  let values = Math.floor(entries ** (1 / dimensions));
  while ((values + 1) ** dimensions <= entries) values += 1;
  while (values ** dimensions > entries) values -= 1;
  return values;
}

/** Skips the floors (§6.2.1 and §7.2.2). */
function skipFloors(bits: LsbBitReader): void {
  const floors = bits.read(6) + 1;
  for (let i = 0; i < floors; i += 1) {
    const type = bits.read(16);
    if (type > 1) throw invalid();
    if (type === 1) {
      skipFloorOfLines(bits);
      continue;
    }
    bits.skip(8 + 16 + 16 + 6 + 8);
    bits.skip(8 * (bits.read(4) + 1));
  }
}

function skipFloorOfLines(bits: LsbBitReader): void {
  const classOf = Array.from({ length: bits.read(5) }, () => bits.read(4));
  const dimensions = Array.from({ length: Math.max(-1, ...classOf) + 1 }, () => {
    const ofClass = bits.read(3) + 1;
    const subclassBits = bits.read(2);
    if (subclassBits > 0) bits.skip(8);
    bits.skip(8 * 2 ** subclassBits);
    return ofClass;
  });
  bits.skip(2);
  const rangeBits = bits.read(4);
  for (const kind of classOf) bits.skip(rangeBits * dimensions[kind]!);
}

/** Skips the residues (§8.6.1). */
function skipResidues(bits: LsbBitReader): void {
  const residues = bits.read(6) + 1;
  for (let i = 0; i < residues; i += 1) {
    if (bits.read(16) > 2) throw invalid();
    bits.skip(24 + 24 + 24);
    const classifications = bits.read(6) + 1;
    bits.skip(8);
    let books = 0;
    for (let k = 0; k < classifications; k += 1) {
      let cascade = bits.read(3);
      if (bits.readFlag()) cascade |= bits.read(5) << 3;
      for (; cascade > 0; cascade >>= 1) books += cascade & 1;
    }
    bits.skip(8 * books);
  }
}

/** Skips the mappings (§4.2.4). */
function skipMappings(bits: LsbBitReader, channels: number): void {
  const mappings = bits.read(6) + 1;
  for (let i = 0; i < mappings; i += 1) {
    if (bits.read(16) !== 0) throw invalid();
    const submaps = bits.readFlag() ? bits.read(4) + 1 : 1;
    if (bits.readFlag()) {
      const steps = bits.read(8) + 1;
      bits.skip(2 * steps * bitsOfValue(channels - 1));
    }
    if (bits.read(2) !== 0) throw invalid();
    if (submaps > 1) bits.skip(4 * channels);
    bits.skip(24 * submaps);
  }
}
