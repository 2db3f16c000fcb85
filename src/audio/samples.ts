import type { SampleCodec, SampleFormat } from './format.ts';
import { encodeG711, type G711Law, G711_VALUES } from './g711.ts';
import { G722_SAMPLES_PER_BYTE, G722Decoder, G722Encoder } from './g722.ts';

/** Conversion of samples: -1…1 in Float32Array inside the gateway, bytes of one of these codecs on the wire. */

const BYTES_PER_SAMPLE: Record<SampleCodec, number> = {
  pcm_s16le: 2,
  pcm_f32le: 4,
  pcm_s16be: 2,
  pcm_u8: 1,
  pcm_s24le: 3,
  pcm_s32le: 4,
  pcm_f64le: 8,
  pcmu: 1,
  pcma: 1,
  // A stream may begin with any byte: each holds two samples.
  g722: 1 / G722_SAMPLES_PER_BYTE,
};

/** Codecs whose samples do not depend on those before them. */
type StatelessCodec = Exclude<SampleCodec, 'g722'>;

type IntegerCodec = Exclude<StatelessCodec, 'pcm_f32le' | 'pcm_f64le'>;

/** Full scale of the integer codecs; G.711 is read and written through 16 bits. */
const FULL_SCALE: Record<IntegerCodec, number> = {
  pcm_s16le: 2 ** 15,
  pcm_s16be: 2 ** 15,
  pcm_u8: 2 ** 7,
  pcm_s24le: 2 ** 23,
  pcm_s32le: 2 ** 31,
  pcmu: 2 ** 15,
  pcma: 2 ** 15,
};

/** Returns the length of one sample of all channels, bytes. */
export const frameBytesOf = ({
  codec,
  channels,
}: Pick<SampleFormat, 'codec' | 'channels'>): number => BYTES_PER_SAMPLE[codec] * channels;

/** Returns the number of bytes from a position in a stream to the beginning of the next unit of `unitBytes` bytes. */
export const bytesToNext = (unitBytes: number, startsAtBytes: number): number =>
  (unitBytes - (startsAtBytes % unitBytes)) % unitBytes;

/** Reads the samples of one stream, in pieces of whole samples; keeps the state of the codec between pieces. */
export type SampleReader = (bytes: Buffer) => Float32Array;

/** Returns a reader of a new stream of a codec. */
export function openSampleReader(codec: SampleCodec): SampleReader {
  if (codec !== 'g722') return (bytes) => readSamples(bytes, codec);
  const decoder = new G722Decoder();
  return (bytes) => decoder.decode(bytes);
}

/** Writes the samples of one stream, piece by piece; keeps the state of the codec between pieces. */
export type SampleWriter = (samples: Float32Array) => Buffer;

/** Returns a writer of a new stream of a codec. */
export function openSampleWriter(codec: SampleCodec): SampleWriter {
  if (codec !== 'g722') return (samples) => writeSamples(samples, codec);
  const encoder = new G722Encoder();
  return (samples) => encoder.encode(samples);
}

/** Reads whole samples; `bytes.length` is a multiple of the length of one. NaN becomes silence. */
export function readSamples(bytes: Buffer, codec: StatelessCodec): Float32Array {
  const samples = new Float32Array(bytes.length / BYTES_PER_SAMPLE[codec]);
  if (codec === 'pcm_f32le') {
    for (let i = 0; i < samples.length; i += 1) samples[i] = limited(bytes.readFloatLE(i * 4));
    return samples;
  }
  if (codec === 'pcm_f64le') {
    for (let i = 0; i < samples.length; i += 1) samples[i] = limited(bytes.readDoubleLE(i * 8));
    return samples;
  }
  const step = 1 / FULL_SCALE[codec];
  // A loop of its own for the codec of most clients that send samples.
  if (codec === 'pcm_s16le' && bytes.byteOffset % 2 === 0) {
    const integers = new Int16Array(bytes.buffer, bytes.byteOffset, samples.length);
    for (let i = 0; i < samples.length; i += 1) samples[i] = integers[i]! * step;
    return samples;
  }
  // As for G.711, whose values are read from one table.
  if (codec === 'pcmu' || codec === 'pcma') {
    const values = G711_VALUES[codec];
    for (let i = 0; i < samples.length; i += 1) samples[i] = values[bytes[i]!]! * step;
    return samples;
  }
  for (let i = 0; i < samples.length; i += 1) samples[i] = readInteger(bytes, i, codec) * step;
  return samples;
}

function readInteger(bytes: Buffer, index: number, codec: Exclude<IntegerCodec, G711Law>): number {
  switch (codec) {
    case 'pcm_s16le':
      return bytes.readInt16LE(index * 2);
    case 'pcm_s16be':
      return bytes.readInt16BE(index * 2);
    case 'pcm_u8':
      return bytes[index]! - 128;
    case 'pcm_s24le':
      return bytes.readIntLE(index * 3, 3);
    case 'pcm_s32le':
      return bytes.readInt32LE(index * 4);
  }
}

const limited = (value: number): number =>
  value >= -1 && value <= 1 ? value : Number.isNaN(value) ? 0 : Math.sign(value);

/** Writes samples, saturating those beyond full scale. */
export function writeSamples(samples: Float32Array, codec: StatelessCodec): Buffer {
  const bytes = Buffer.allocUnsafe(samples.length * BYTES_PER_SAMPLE[codec]);
  if (codec === 'pcm_f32le') {
    for (let i = 0; i < samples.length; i += 1) bytes.writeFloatLE(samples[i]!, i * 4);
    return bytes;
  }
  if (codec === 'pcm_f64le') {
    for (let i = 0; i < samples.length; i += 1) bytes.writeDoubleLE(samples[i]!, i * 8);
    return bytes;
  }
  const fullScale = FULL_SCALE[codec];
  // A loop of its own for the codec of most clients that hear samples.
  if (codec === 'pcm_s16le') {
    for (let i = 0; i < samples.length; i += 1) {
      const value = rounded(samples[i]!, fullScale);
      bytes[i * 2] = value;
      bytes[i * 2 + 1] = value >> 8;
    }
    return bytes;
  }
  for (let i = 0; i < samples.length; i += 1) {
    writeInteger(bytes, i, rounded(samples[i]!, fullScale), codec);
  }
  return bytes;
}

/** Returns the nearest integer of a sample, saturated. */
function rounded(sample: number, fullScale: number): number {
  const value = Math.round(sample * fullScale);
  return value >= fullScale ? fullScale - 1 : value < -fullScale ? -fullScale : value;
}

function writeInteger(
  bytes: Buffer,
  index: number,
  value: number,
  codec: Exclude<IntegerCodec, 'pcm_s16le'>,
): void {
  switch (codec) {
    case 'pcm_s16be':
      bytes[index * 2] = (value >> 8) & 0xff;
      bytes[index * 2 + 1] = value & 0xff;
      break;
    case 'pcm_u8':
      bytes[index] = value + 128;
      break;
    case 'pcm_s24le':
      bytes.writeIntLE(value, index * 3, 3);
      break;
    case 'pcm_s32le':
      bytes.writeInt32LE(value, index * 4);
      break;
    case 'pcmu':
    case 'pcma':
      bytes[index] = encodeG711(value, codec);
      break;
  }
}

/** Returns the mean of interleaved channels. */
export function downmix(samples: Float32Array, channels: number): Float32Array {
  if (channels === 1) return samples;
  const mono = new Float32Array(samples.length / channels);
  for (let i = 0; i < mono.length; i += 1) {
    let sum = 0;
    for (let k = i * channels; k < (i + 1) * channels; k += 1) sum += samples[k]!;
    mono[i] = sum / channels;
  }
  return mono;
}

/** Returns one channel as `channels` equal ones, interleaved. */
export function upmix(samples: Float32Array, channels: number): Float32Array {
  if (channels === 1) return samples;
  const stereo = new Float32Array(samples.length * 2);
  for (let i = 0; i < stereo.length; i += 1) stereo[i] = samples[i >> 1]!;
  return stereo;
}
