import type { SampleFormat } from '../../src/audio/format.ts';
import { frameBytesOf } from '../../src/audio/samples.ts';

/** Format tag of integer samples. */
const INTEGERS = 1;

/** Samples of integers in a RIFF WAVE file, or the beginning of a longer one of `dataBytes`. */
export function wavFile(
  { codec, rateHz, channels }: SampleFormat,
  samples: Buffer,
  dataBytes = samples.length,
): Buffer {
  const frameBytes = frameBytesOf({ codec, channels });
  const head = Buffer.alloc(44);
  head.write('RIFF', 0);
  head.writeUInt32LE(Math.min(36 + dataBytes, 0xffff_ffff), 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(INTEGERS, 20);
  head.writeUInt16LE(channels, 22);
  head.writeUInt32LE(rateHz, 24);
  head.writeUInt32LE(rateHz * frameBytes, 28);
  head.writeUInt16LE(frameBytes, 32);
  head.writeUInt16LE((8 * frameBytes) / channels, 34);
  head.write('data', 36);
  head.writeUInt32LE(dataBytes, 40);
  return Buffer.concat([head, samples]);
}
