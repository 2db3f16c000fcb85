import type { SampleCodec } from '../../format.ts';
import { G711_STEPS, G711_VALUES, type G711Law } from '../../g711.ts';
import { bestChannels, type Novelty } from './channels.ts';
import { areFloats, areTinyFloats, isFloatSample } from './float-sizes.ts';
import { g722BitsPerByte } from './g722-codes.ts';
import { BLOCK_SAMPLES, bitsPerSample, predict } from './prediction.ts';
import { WindowSet } from './window-set.ts';

/** Codecs of samples as which bytes may be read. */
export type HypothesisCodec = SampleCodec | UndecodedCodec;
/** Codecs that are not decoded: they are recognized so that no other codec explains their bytes. */
type UndecodedCodec =
  'pcm_s8' | 'pcm_u16le' | 'pcm_u16be' | 'pcm_s24be' | 'pcm_s32be' | 'pcm_f32be';
type IntegerCodec = Exclude<
  HypothesisCodec,
  'pcm_f32le' | 'pcm_f32be' | 'pcm_f64le' | 'g722' | G711Law
>;

const UNDECODED: ReadonlySet<HypothesisCodec> = new Set<UndecodedCodec>([
  'pcm_s8',
  'pcm_u16le',
  'pcm_u16be',
  'pcm_s24be',
  'pcm_s32be',
  'pcm_f32be',
]);
export const isDecoded = (codec: HypothesisCodec): codec is SampleCodec => !UNDECODED.has(codec);

/**
 * Interpretation of bytes as samples of one codec, and its cost in bits a byte. The cost counts everything that a coder
 * for this codec could not predict: less than 8 for the right codec, about 8 or more for a wrong one, because
 * sound that is read wrongly is noise. The hypothesis that explains the bytes in the fewest bits is the right one (minimum
 * description length).
 */
export type Hypothesis = {
  codec: HypothesisCodec;
  channels: number;
  bitsPerByte: number;
  /** Returns the hypothesis with the other number of channels, which the pace may determine better than the samples. */
  otherwise?: () => { channels: number; bitsPerByte: number };
};

/** Maximum number of bytes that are read; more do not make the answer surer. */
const MAX_BYTES = 8192;
/** Full scale of floats, in steps: they are exact to about 24 bits. */
const FLOAT_FULL_SCALE = 2 ** 23;
/** Length of the windows that are compared with earlier bytes: shorter repetitions count as new. */
const REPEATED_BYTES = 32;

/** Random number for each byte, drawn at start, so that no client can choose bytes whose hashes collide. */
const BYTE_HASHES = crypto.getRandomValues(new Int32Array(256));

/**
 * Returns the number of bytes that do not belong to a repetition of earlier bytes. In a tone whose period is a whole number
 * of samples only the first period is new.
 * @param seen empty set for all windows of the bytes
 */
export function novelBytesOf(
  bytes: Buffer,
  byteHashes = BYTE_HASHES,
  seen = new WindowSet(bytes.length),
): number {
  let novel = Math.min(bytes.length, REPEATED_BYTES - 1);
  let hash = 0;
  for (let i = 0; i < bytes.length; i += 1) {
    // A rolling hash of the last 32 bytes: older bytes have been shifted out.
    hash = (Math.imul(hash, 2) + byteHashes[bytes[i]!]!) | 0;
    if (i >= REPEATED_BYTES - 1 && seen.add(hash)) novel += 1;
  }
  return novel;
}

/** Returns a signed 24-bit value; the highest byte comes first. */
const int24 = (high: number, middle: number, low: number): number =>
  ((high << 24) >> 8) | (middle << 8) | low;

type IntegerReader = { bytes: number; read: (bytes: Buffer, at: number) => number };
const INTEGERS: Record<IntegerCodec, IntegerReader> = {
  pcm_s16le: { bytes: 2, read: (bytes, at) => bytes.readInt16LE(at) },
  pcm_s16be: { bytes: 2, read: (bytes, at) => bytes.readInt16BE(at) },
  pcm_u16le: { bytes: 2, read: (bytes, at) => bytes.readUInt16LE(at) - 0x8000 },
  pcm_u16be: { bytes: 2, read: (bytes, at) => bytes.readUInt16BE(at) - 0x8000 },
  pcm_u8: { bytes: 1, read: (bytes, at) => bytes[at]! - 128 },
  pcm_s8: { bytes: 1, read: (bytes, at) => bytes.readInt8(at) },
  pcm_s24le: { bytes: 3, read: (bytes, at) => int24(bytes[at + 2]!, bytes[at + 1]!, bytes[at]!) },
  pcm_s24be: { bytes: 3, read: (bytes, at) => int24(bytes[at]!, bytes[at + 1]!, bytes[at + 2]!) },
  pcm_s32le: { bytes: 4, read: (bytes, at) => bytes.readInt32LE(at) },
  pcm_s32be: { bytes: 4, read: (bytes, at) => bytes.readInt32BE(at) },
};

/** Minimum number of new bytes in the first moments of sound that is not synthetic. */
export const LEAST_NOVEL_BYTES = 512;

/**
 * Reads bytes that begin with a whole sample as samples of each codec.
 * @returns possible hypotheses, the shortest first
 */
export function readAsSamples(bytes: Buffer): Hypothesis[] {
  const part = bytes.subarray(0, MAX_BYTES);
  const novelBytes = novelBytesOf(part);
  if (part.length < 2 * SCREENED_BYTES || novelBytes < LEAST_NOVEL_BYTES) {
    return readAs(part, ALL_CODECS, novelBytes);
  }
  // A part of the bytes shows which hypotheses are worth the work.
  const screened = readAs(part.subarray(0, SCREENED_BYTES), ALL_CODECS, SCREENED_BYTES);
  const worst = screened[0]!.bitsPerByte + SCREENED_BITS;
  const codecs = screened.filter(({ bitsPerByte }) => bitsPerByte < worst);
  return readAs(part, new Set(codecs.map(({ codec }) => codec)), novelBytes);
}

/** Number of bytes for a first selection of hypotheses: a whole number of samples of any format. */
const SCREENED_BYTES = 1152;
/** Excess over the best hypothesis, bits a byte, beyond which a hypothesis cannot become the best. */
const SCREENED_BITS = 1.5;

const G711_LAWS: G711Law[] = ['pcmu', 'pcma'];
const FLOATS = ['pcm_f32le', 'pcm_f32be'] as const;
const ALL_CODECS: ReadonlySet<HypothesisCodec> = new Set([
  ...(Object.keys(INTEGERS) as IntegerCodec[]),
  ...FLOATS,
  ...G711_LAWS,
  'g722',
]);

/** @returns possible hypotheses as `codecs`, the shortest first */
function readAs(
  part: Buffer,
  codecs: ReadonlySet<HypothesisCodec>,
  novelBytes: number,
): Hypothesis[] {
  const novelty: Novelty = {
    share: novelBytes / part.length,
    blockSamples: novelBytes < LEAST_NOVEL_BYTES ? Infinity : BLOCK_SAMPLES,
  };
  const floats = FLOATS.map((codec) =>
    codecs.has(codec) ? readFloats(part, codec, novelty) : undefined,
  );
  const integers = Object.keys(INTEGERS) as IntegerCodec[];
  const hypotheses = [
    ...integers
      .filter((codec) => codecs.has(codec))
      .map((codec) => readIntegers(part, codec, novelty, floats[0] !== undefined)),
    ...floats,
    ...G711_LAWS.filter((law) => codecs.has(law)).map((law) => readG711(part, law, novelty)),
  ].filter((hypothesis) => hypothesis !== undefined);
  if (codecs.has('g722')) {
    hypotheses.push({ codec: 'g722', channels: 1, bitsPerByte: g722BitsPerByte(part) });
  }
  return hypotheses.toSorted((a, b) => a.bitsPerByte - b.bitsPerByte);
}

function readIntegers(
  bytes: Buffer,
  codec: IntegerCodec,
  novelty: Novelty,
  mayBeFloats: boolean,
): Hypothesis | undefined {
  const { bytes: sampleBytes, read } = INTEGERS[codec];
  const samples = new Float64Array(Math.floor(bytes.length / sampleBytes));
  let bitsInUse = 0;
  for (let i = 0; i < samples.length; i += 1) {
    const value = read(bytes, i * sampleBytes);
    samples[i] = value;
    bitsInUse |= value;
  }
  // Wide samples are often converted from narrower ones: their lowest bits are not in use.
  const areAllUsed = bitsInUse === 0 || novelty.blockSamples === Infinity;
  const step = areAllUsed ? 1 : 2 ** (31 - Math.clz32(bitsInUse & -bitsInUse));
  // The same bytes are 16-bit samples on two channels with a silent left channel, which are more
  // usual.
  if (codec === 'pcm_s32le' && (bitsInUse & 0xffff) === 0) return undefined;
  // A constant channel is half of wider samples; but if it is silent, and the bytes are not floats,
  // the channel is unused.
  const isOne =
    codec === 'pcm_s16le' &&
    [0, 1].some((phase) => isStuck(samples, phase) && (samples[phase] !== 0 || mayBeFloats));
  const { channels, bits, otherBits } = bestChannels(samples, novelty, { step, isOne });
  return hypothesisOf(codec, sampleBytes, { channels, bits, otherBits });
}

function hypothesisOf(
  codec: HypothesisCodec,
  sampleBytes: number,
  { channels, bits, otherBits }: ReturnType<typeof bestChannels>,
): Hypothesis {
  const otherwise = () => ({ channels: 3 - channels, bitsPerByte: otherBits() / sampleBytes });
  return { codec, channels, bitsPerByte: bits / sampleBytes, otherwise };
}

/** Reads floats, from tiny values to far over full scale; in other bytes at least the negative samples are no such floats. */
function readFloats(
  bytes: Buffer,
  codec: 'pcm_f32le' | 'pcm_f32be',
  novelty: Novelty,
): Hypothesis | undefined {
  const floats = new Float64Array(bytes.length >> 2);
  for (let i = 0; i < floats.length; i += 1) {
    floats[i] = codec === 'pcm_f32le' ? bytes.readFloatLE(4 * i) : bytes.readFloatBE(4 * i);
  }
  const isNovel = novelty.blockSamples !== Infinity;
  if (!areFloats(floats) && !(isNovel && areTinyFloats(floats))) return undefined;
  const samples = floats.map((value) => (isFloatSample(value) ? value * FLOAT_FULL_SCALE : 0));
  return hypothesisOf(codec, 4, bestChannels(samples, novelty, { step: 1, isOne: false }));
}

/** Reads G.711, whose steps are wider for louder samples, which therefore hold fewer bits. */
function readG711(bytes: Buffer, codec: G711Law, novelty: Novelty): Hypothesis {
  const [valueOf, stepOf] = [G711_VALUES[codec], G711_STEPS[codec]];
  // `Float64Array.from` with a function takes six times as long, a third of the time of all
  // weighing.
  const values = new Float64Array(bytes.length);
  const steps = new Float64Array(bytes.length);
  for (let i = 0; i < bytes.length; i += 1) {
    values[i] = valueOf[bytes[i]!]!;
    steps[i] = stepOf[bytes[i]!]!;
  }
  const bitsPerByte = bitsPerSample(values, predict(values), { channels: 1, steps, ...novelty });
  return { codec, channels: 1, bitsPerByte };
}

/** True if every other sample has the same value. */
function isStuck(samples: Float64Array, phase: number): boolean {
  for (let i = phase; i < samples.length; i += 2) if (samples[i] !== samples[phase]) return false;
  return true;
}

/** Number of values of a nibble, whose frequencies must be encoded, too. */
const NIBBLES = 16;

/**
 * Returns the cost of bytes that are not samples, bits a byte: 8, or the entropy of their nibbles if some values are more frequent, as in ADPCM.
 */
export function unexplainedBitsPerByte(bytes: Buffer): number {
  const part = bytes.subarray(0, MAX_BYTES);
  const counts = new Float64Array(NIBBLES);
  for (const byte of part) {
    counts[byte >> 4]! += 1;
    counts[byte & 15]! += 1;
  }
  const total = 2 * part.length;
  let bits = ((NIBBLES - 1) / 2) * Math.log2(total);
  for (const count of counts) if (count > 0) bits -= count * Math.log2(count / total);
  return Math.min(8, bits / part.length);
}
