import { ADTS_RATES_HZ } from '../frames/adts-frame.ts';
import { BANDS, type Bands } from './bands.ts';
import { BitReader } from './bit-reader.ts';
import {
  type Channel,
  eachBand,
  finish,
  isIntensity,
  isNoise,
  readChannel,
  readWindows,
} from './channel.ts';
import { FilterBank, FRAME_SAMPLES } from './filter-bank.ts';

/** AAC of the low complexity profile (ISO/IEC 14496-3, 4.4 and 4.6), in frames of ADTS. */

const LOW_COMPLEXITY = 1;
/** Types of the elements of a frame. */
const SINGLE = 0;
const PAIR = 1;
const LOW_FREQUENCIES = 3;
const DATA = 4;
const PROGRAM = 5;
const FILL = 6;
const END = 7;
const MAX_CHANNELS = 8;

type Block = { rateHz: number; samples: Float32Array };

/** Decoder of one stream. No input makes it read or write outside of its own arrays. */
export class AacDecoder {
  readonly #filterBanks: FilterBank[] = [];

  /**
   * Decodes a frame to one channel.
   * @throws {Error} if the frame cannot be read
   */
  decode(frame: Uint8Array): Block {
    const bits = new BitReader(frame);
    bits.skip(15);
    const hasNoChecksum = bits.readFlag();
    const profile = bits.read(2);
    const rate = bits.read(4);
    bits.skip(32);
    const blocks = bits.read(2) + 1;
    const [rateHz, bands] = [ADTS_RATES_HZ[rate], BANDS[rate]];
    if (profile !== LOW_COMPLEXITY || !bands || !rateHz) throw new Error('Not AAC-LC.');
    if (!hasNoChecksum && blocks > 1)
      throw new Error('Several blocks in one frame have checksums.');
    if (!hasNoChecksum) bits.skip(16);
    const samples = new Float32Array(blocks * FRAME_SAMPLES);
    for (let block = 0; block < blocks; block += 1) {
      samples.set(this.#decodeBlock(bits, bands), block * FRAME_SAMPLES);
    }
    return { rateHz, samples };
  }

  #decodeBlock(bits: BitReader, bands: Bands): Float32Array {
    const channels = readBlock(bits, bands);
    const mean = new Float32Array(FRAME_SAMPLES);
    for (const [i, channel] of channels.entries()) {
      const { sequence, shape } = channel.windows;
      this.#filterBanks[i] ??= new FilterBank();
      const sound = this.#filterBanks[i].synthesize(finish(channel), sequence, shape);
      for (let n = 0; n < FRAME_SAMPLES; n += 1) mean[n]! += sound[n]! / channels.length;
    }
    return mean;
  }
}

/** Returns the channels of a raw_data_block. */
function readBlock(bits: BitReader, bands: Bands): Channel[] {
  const channels: Channel[] = [];
  for (;;) {
    const element = bits.read(3);
    if (element === END) break;
    if (element === FILL) {
      skipFill(bits);
      continue;
    }
    const tag = bits.read(4);
    if (element === SINGLE || element === LOW_FREQUENCIES) channels.push(readChannel(bits, bands));
    else if (element === PAIR) channels.push(...readPair(bits, bands));
    else if (element === DATA) skipData(bits);
    else if (element === PROGRAM) skipProgram(bits);
    else throw new Error(`Element ${element} ${tag} is not of this profile.`);
    if (channels.length > MAX_CHANNELS) throw new Error('The frame has too many channels.');
  }
  if (channels.length === 0) throw new Error('The frame has no channels.');
  bits.align();
  return channels;
}

function skipFill(bits: BitReader): void {
  let bytes = bits.read(4);
  if (bytes === 15) bytes += bits.read(8) - 1;
  bits.skip(8 * bytes);
}

function skipData(bits: BitReader): void {
  const isAligned = bits.readFlag();
  let bytes = bits.read(8);
  if (bytes === 255) bytes += bits.read(8);
  if (isAligned) bits.align();
  bits.skip(8 * bytes);
}

/** Skips the assignment of channels, which does not matter: all become one. */
function skipProgram(bits: BitReader): void {
  bits.skip(6);
  const fronts = bits.read(4) + bits.read(4) + bits.read(4);
  const lowFrequencies = bits.read(2);
  const data = bits.read(3);
  const couplings = bits.read(4);
  for (let mixdown = 0; mixdown < 2; mixdown += 1) if (bits.readFlag()) bits.skip(4);
  if (bits.readFlag()) bits.skip(3);
  bits.skip(5 * fronts + 4 * lowFrequencies + 4 * data + 5 * couplings);
  bits.align();
  bits.skip(8 * bits.read(8));
}

const SOME = 1;
const ALL = 2;

/** Reads two channels, which may share their windows, and be coded as sum and difference, band by band. */
function readPair(bits: BitReader, bands: Bands): [Channel, Channel] {
  const shared = bits.readFlag() ? readWindows(bits, bands) : undefined;
  const bandCount = shared ? shared.groups.length * shared.bandCount : 0;
  const mask = shared ? bits.read(2) : 0;
  if (mask > ALL) throw new Error('Invalid mask.');
  const isMasked = Array.from({ length: bandCount }, () =>
    mask === SOME ? bits.readFlag() : mask === ALL,
  );
  const left = readChannel(bits, bands, shared);
  const right = readChannel(bits, bands, shared);
  if (shared) join(left, right, isMasked, mask === SOME);
  return [left, right];
}

function join(left: Channel, right: Channel, isMasked: boolean[], mayInvert: boolean): void {
  const [a, b] = [left.spectrum, right.spectrum];
  eachBand(left.windows, (band, from, to) => {
    if (isIntensity(right.codebooks[band]!)) {
      const sign = mayInvert && isMasked[band] ? -1 : 1;
      const scale = sign * right.intensities[band]!;
      for (let i = from; i < to; i += 1) b[i] = scale * a[i]!;
    } else if (isMasked[band] && !isNoise(left.codebooks[band]!)) {
      for (let i = from; i < to; i += 1) {
        const [sum, difference] = [a[i]!, b[i]!];
        a[i] = sum + difference;
        b[i] = sum - difference;
      }
    }
  });
}
