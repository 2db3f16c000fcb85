import type { SampleCodec, SampleFormat } from './format.ts';
import { encodeG711, G711_VALUES } from './g711.ts';

/** Samples are -1…1 in Float32Array inside the gateway; on the wire they are bytes of one of four codecs. */

const FULL_SCALE = 32768;

const BYTES_PER_SAMPLE: Record<SampleCodec, number> = {
  pcm_s16le: 2,
  pcm_f32le: 4,
  pcmu: 1,
  pcma: 1,
};

/** What one sample of all channels takes. */
export const frameBytesOf = ({
  codec,
  channels,
}: Pick<SampleFormat, 'codec' | 'channels'>): number => BYTES_PER_SAMPLE[codec] * channels;

/** How many bytes there are from a place in a stream to where the next unit of so many bytes begins. */
export const bytesToNext = (unitBytes: number, startsAtBytes: number): number =>
  (unitBytes - (startsAtBytes % unitBytes)) % unitBytes;

/** Reads whole samples; `bytes.length` is a multiple of what one takes. What is no number becomes silence. */
export function readSamples(bytes: Buffer, codec: SampleCodec): Float32Array {
  const samples = new Float32Array(bytes.length / BYTES_PER_SAMPLE[codec]);
  for (let i = 0; i < samples.length; i += 1) samples[i] = readSample(bytes, i, codec);
  return samples;
}

function readSample(bytes: Buffer, index: number, codec: SampleCodec): number {
  if (codec === 'pcm_s16le') return bytes.readInt16LE(index * 2) / FULL_SCALE;
  if (codec !== 'pcm_f32le') return G711_VALUES[codec][bytes[index]!]! / FULL_SCALE;
  const value = bytes.readFloatLE(index * 4);
  return value >= -1 && value <= 1 ? value : Number.isNaN(value) ? 0 : Math.sign(value);
}

/** Writes samples, saturating what is beyond full scale. */
export function writeSamples(samples: Float32Array, codec: SampleCodec): Buffer {
  const bytes = Buffer.allocUnsafe(samples.length * BYTES_PER_SAMPLE[codec]);
  for (let i = 0; i < samples.length; i += 1) {
    if (codec === 'pcm_f32le') {
      bytes.writeFloatLE(samples[i]!, i * 4);
      continue;
    }
    const rounded = Math.round(samples[i]! * FULL_SCALE);
    const value = rounded > 32767 ? 32767 : rounded < -FULL_SCALE ? -FULL_SCALE : rounded;
    if (codec === 'pcm_s16le') {
      bytes[i * 2] = value & 0xff;
      bytes[i * 2 + 1] = (value >> 8) & 0xff;
    } else {
      bytes[i] = encodeG711(value, codec);
    }
  }
  return bytes;
}

/** The mean of interleaved channels. */
export function downmix(samples: Float32Array, channels: number): Float32Array {
  if (channels === 1) return samples;
  const mono = new Float32Array(samples.length / 2);
  for (let i = 0; i < mono.length; i += 1) mono[i] = (samples[2 * i]! + samples[2 * i + 1]!) / 2;
  return mono;
}

/** One channel as so many equal ones, interleaved. */
export function upmix(samples: Float32Array, channels: number): Float32Array {
  if (channels === 1) return samples;
  const stereo = new Float32Array(samples.length * 2);
  for (let i = 0; i < stereo.length; i += 1) stereo[i] = samples[i >> 1]!;
  return stereo;
}
