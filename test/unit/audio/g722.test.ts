import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { G722Decoder, G722Encoder } from '../../../src/audio/g722.ts';
import { writeSamples } from '../../../src/audio/samples.ts';
import { readFixture, SPEECH } from '../../support/fixtures.ts';

/** The speech, as ffmpeg's G.722 encoder encodes it. */
const ENCODED = readFixture('speech.g722');
/** SHA-256 of what ffmpeg's decoder makes of that, as 16-bit samples. */
const DECODED = '59e227fc40a3940387d0fdad39897f560cd363b803c6b5ed5eb90073421d3016';

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

describe('G.722', () => {
  test('decode() gives the samples of another decoder, to the bit', () => {
    const samples = new G722Decoder().decode(ENCODED);
    expect(sha256(writeSamples(samples, 'pcm_s16le'))).toBe(DECODED);
  });

  test('encode() gives the bytes of another encoder', () => {
    expect(new G722Encoder().encode(SPEECH).equals(ENCODED)).toBe(true);
  });

  test('encode() and decode() give the same for pieces of any length', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 700 }), { maxLength: 40 }), (lengths) => {
        const [encoder, decoder] = [new G722Encoder(), new G722Decoder()];
        const pieces: Buffer[] = [];
        let at = 0;
        for (const length of lengths) {
          pieces.push(encoder.encode(SPEECH.subarray(at, at + length)));
          at += length;
        }
        const bytes = Buffer.concat(pieces);
        expect(bytes.equals(ENCODED.subarray(0, at >> 1))).toBe(true);
        const whole = new G722Decoder().decode(bytes);
        const apart = pieces.flatMap((piece) => [...decoder.decode(piece)]);
        expect(Float32Array.from(apart)).toEqual(whole);
      }),
      { numRuns: 30 },
    );
  });

  test('decode() of any bytes gives samples within full scale', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 2000 }), (bytes) => {
        const samples = new G722Decoder().decode(bytes);
        expect(samples).toHaveLength(2 * bytes.length);
        expect(samples.every((sample) => sample >= -1 && sample <= 1)).toBe(true);
      }),
    );
  });

  test('decode() of the worst steps stays within full scale for ten seconds', () => {
    const decoder = new G722Decoder();
    for (const byte of [0x00, 0x3f, 0x84, 0xa0, 0xff]) {
      const samples = decoder.decode(Buffer.alloc(16_000, byte));
      expect(samples.every((sample) => Math.abs(sample) <= 1)).toBe(true);
    }
  });
});
