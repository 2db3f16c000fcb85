import { beforeAll, describe, expect, test } from 'vitest';
import { formatAudioFormat } from '../../../../../src/audio/format.ts';
import { FormatDetector } from '../../../../../src/audio/ingest/detection/detector.ts';
import { soundOf } from '../../../../support/corpus.ts';
import { seededRandom } from '../../../../support/random.ts';

const MESSAGE_MS = 20;

let sound: Float32Array;
let rateHz: number;

/** Returns the first verdict on bytes that come in messages of 20 ms. */
function verdictOn(bytes: Buffer): string | undefined {
  const messageBytes = (bytes.length / sound.length) * ((rateHz * MESSAGE_MS) / 1000);
  const detector = new FormatDetector();
  for (let i = 0; (i + 1) * messageBytes <= bytes.length; i += 1) {
    const message = bytes.subarray(i * messageBytes, (i + 1) * messageBytes);
    const detection = detector.push(message, 1000 + i * MESSAGE_MS);
    if (detection) return formatAudioFormat(detection.format);
  }
  return undefined;
}

const floatsOf = (gain: number) => Buffer.from(sound.map((value) => value * gain).buffer);
const integersOf = (gain: number) =>
  Buffer.from(sound.map((value) => Math.round(value * gain)).buffer);
const unsignedOf = () =>
  Buffer.from(Uint16Array.from(sound, (value) => 0x8000 + value * 0x7fff).buffer);

const ODD: [string, () => Buffer][] = [
  ['32-bit floats with the values of 16-bit integers', () => integersOf(0x7fff)],
  ['unsigned 16-bit samples', unsignedOf],
  ['unsigned 16-bit samples in network order', () => unsignedOf().swap16()],
];

describe.each([8000, 16_000, 48_000])('speech at %d Hz', (hz) => {
  beforeAll(() => {
    rateHz = hz;
    sound = soundOf('speech', hz, 1200, seededRandom(1));
  });

  test.each(ODD)('FormatDetector.push() of %s: unknown', (_, bytesOf) => {
    expect(verdictOn(bytesOf())).toBe('opaque');
  });

  test.each([1e-7, 1e-4, 1, 8])(
    'FormatDetector.push() of floats amplified %d times: floats',
    (gain) => {
      expect(verdictOn(floatsOf(gain))).toBe(`pcm_f32le;rate=${hz};channels=1`);
    },
  );
});
