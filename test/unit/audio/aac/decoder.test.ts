import { expect, test } from 'vitest';
import { AacDecoder } from '../../../../src/audio/aac/decoder.ts';
import { ADTS_FRAMES } from '../../../../src/audio/frames/adts-frame.ts';
import { compareWithSpeech, readFixture } from '../../../support/fixtures.ts';
import { seededRandom } from '../../../support/random.ts';

const framesOf = (stream: Buffer): Buffer[] => {
  const frames: Buffer[] = [];
  for (let at = 0; at + ADTS_FRAMES.headerBytes <= stream.length;) {
    const { bytes } = ADTS_FRAMES.parse(stream, at)!;
    frames.push(stream.subarray(at, at + bytes));
    at += bytes;
  }
  return frames;
};
const FRAMES = framesOf(readFixture('speech.aac'));

test('AacDecoder.decode() of speech at 48 kHz is the speech', () => {
  const decoder = new AacDecoder();
  const sound = FRAMES.flatMap((frame) => {
    const { samples, rateHz } = decoder.decode(frame);
    expect(rateHz).toBe(48_000);
    return [...samples];
  });
  const { offDb, likeness } = compareWithSpeech(Float32Array.from(sound));
  expect(Math.abs(offDb)).toBeLessThan(0.5);
  expect(likeness).toBeGreaterThan(0.9);
});

/** Samples of a frame, or the error. */
function decodeAny(decoder: AacDecoder, frame: Buffer): unknown {
  try {
    return decoder.decode(frame).samples.length;
  } catch (fault) {
    return fault;
  }
}

test('AacDecoder.decode() of changed and of cut frames: sound of the same length, or an error of its own', () => {
  const random = seededRandom(1);
  const decoder = new AacDecoder();
  const results = Array.from({ length: 20 }, () => FRAMES)
    .flat()
    .map((frame) => {
      const spoilt = Buffer.from(frame.subarray(0, Math.ceil(frame.length * (0.5 + random()))));
      for (let i = 0; i < 3; i += 1) {
        spoilt[7 + Math.floor(random() * (spoilt.length - 7))] = Math.floor(random() * 256);
      }
      return decodeAny(decoder, spoilt);
    });
  const heard = results.filter((result) => result === 1024);
  const refused = results.filter(
    (result) => result instanceof Error && result.constructor === Error,
  );
  expect(heard.length).toBeGreaterThan(100);
  expect(refused.length).toBeGreaterThan(100);
  expect(heard.length + refused.length).toBe(results.length);
});
