import { describe, expect, test } from 'vitest';
import { novelBytesOf } from '../../../../../src/audio/ingest/detection/description-length.ts';
import { FormatCheck } from '../../../../../src/audio/ingest/detection/format-check.ts';
import {
  FormatDetector,
  WeighingTurns,
} from '../../../../../src/audio/ingest/detection/detector.ts';
import { WindowSet } from '../../../../../src/audio/ingest/detection/window-set.ts';
import { collidingBytes } from '../../../../support/colliding-bytes.ts';
import { seededRandom } from '../../../../support/random.ts';

/** Cost of hostile bytes for the detector: counted, not timed. */

const WINDOWS = 8192;
const MAX_PROBES = 16;

describe('WindowSet', () => {
  test('add() of numbers at random: each is new once', () => {
    const set = new WindowSet(WINDOWS);
    const random = seededRandom(1);
    const hashes = Array.from({ length: 1000 }, () => Math.floor(random() * 2 ** 31) * 2);
    expect(hashes.map((hash) => set.add(hash))).toEqual(hashes.map(() => true));
    expect(hashes.map((hash) => set.add(hash))).toEqual(hashes.map(() => false));
    expect(set.probes).toBeLessThan(3000);
  });

  test('add() of hashes that all have the same slot, chosen with the multiplier known: a bounded number of probes each', () => {
    const multiplier = 0x9e3779b1;
    const inverse = inverseOf(multiplier);
    const set = new WindowSet(WINDOWS, multiplier);
    for (let i = 0; i < WINDOWS; i += 1) set.add(Math.imul(2 * i + 1, inverse));
    expect(set.probes).toBeLessThanOrEqual(MAX_PROBES * WINDOWS);
  });
});

/** The number whose product with an odd one is 1, modulo 2^32 (Newton). */
function inverseOf(odd: number): number {
  let inverse = odd;
  for (let i = 0; i < 5; i += 1) inverse = Math.imul(inverse, 2 - Math.imul(odd, inverse));
  return inverse;
}

test('novelBytesOf() of a stretch that comes twice: once', () => {
  const random = seededRandom(2);
  const stretch = Buffer.from(Array.from({ length: 2000 }, () => Math.floor(random() * 256)));
  expect(novelBytesOf(stretch)).toBe(2000);
  expect(novelBytesOf(Buffer.concat([stretch, stretch]))).toBe(2031);
  expect(novelBytesOf(Buffer.alloc(4000))).toBe(32);
});

test('novelBytesOf() of bytes chosen with its hashes known: a bounded number of probes each', () => {
  const random = seededRandom(4);
  const ofBytes = Int32Array.from({ length: 256 }, () => Math.floor(random() * 2 ** 32) | 0);
  const multiplier = 0x9e3779b1;
  const shift = 32 - Math.log2(2 * 2 * WINDOWS);
  const slotOf = (hash: number) => Math.imul(hash | 1, multiplier) >>> shift;
  const bytes = collidingBytes(WINDOWS, { ofBytes, slotOf });
  const seen = new WindowSet(WINDOWS, multiplier);
  expect(novelBytesOf(bytes, ofBytes, seen)).toBe(WINDOWS);
  // The bytes do collide: without a bound there would be thousands of probes for each.
  expect(seen.probes).toBeGreaterThan((MAX_PROBES / 2) * WINDOWS);
  expect(seen.probes).toBeLessThanOrEqual(MAX_PROBES * WINDOWS);
});

test('FormatDetector.push() of very small messages, as fast as they come: not more than 1024 are held', () => {
  const detector = new FormatDetector();
  let detection;
  for (let i = 0; i < 2000 && !detection; i += 1) {
    detection = detector.push(Buffer.of(i & 0xff), i * 0.01);
  }
  expect(detection).toBeDefined();
  expect(detector.arrivals).toHaveLength(1024);
});

test('FormatCheck.push() of a declared stream that is another: looked at until that is sure, then once in 10 s', () => {
  const declared = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 } as const;
  const check = new FormatCheck(declared, true, new WeighingTurns());
  const random = seededRandom(3);
  let looks = 0;
  let told = 0;
  for (let atMs = 0; atMs < 60_000; atMs += 20) {
    const message = Buffer.from(
      Array.from({ length: 160 }, () => 0xd5 ^ Math.floor(random() ** 4 * 64)),
    );
    if (atMs < check.dueAtMs) continue;
    looks += 1;
    if (check.push(message, atMs, atMs * 8)) told += 1;
  }
  expect(told).toBe(1);
  // A decision takes up to half a second, three of them are needed, six times a minute.
  expect(looks).toBeLessThan(700);
});
