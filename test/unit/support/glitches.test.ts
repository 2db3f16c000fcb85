import { describe, expect, test } from 'vitest';
import { findGlitches } from '../../support/glitches.ts';
import { decodeOpus, opusTone } from '../../support/sound.ts';

const RATE_HZ = 48_000;

/** A second of tones, each of 0.2, with no phase in common. */
const tones = (...frequenciesHz: number[]) =>
  Float32Array.from({ length: RATE_HZ }, (_, i) =>
    frequenciesHz.reduce(
      (sum, hz, k) => sum + 0.2 * Math.sin((2 * Math.PI * hz * i) / RATE_HZ + k),
      0,
    ),
  );

const sweep = Float32Array.from({ length: RATE_HZ }, (_, i) => {
  const seconds = i / RATE_HZ;
  return 0.3 * Math.sin(2 * Math.PI * (200 * seconds + (3800 / 2) * seconds ** 2));
});

/** Without `count` samples from `at`. */
const cutOut = (sound: Float32Array, at: number, count: number) =>
  Float32Array.from([...sound.subarray(0, at), ...sound.subarray(at + count)]);

const MIDDLE = 24_123;
const near = (kind: string): unknown => expect.objectContaining({ kind });

describe('findGlitches() finds nothing', () => {
  test.each([
    ['in a low tone', tones(200)],
    ['in a high tone', tones(3800)],
    ['in three tones', tones(500, 900, 1700)],
    ['in a sweep', sweep],
    ['in silence', new Float32Array(RATE_HZ)],
  ])('%s', (_name, sound) => {
    expect(findGlitches(sound)).toEqual([]);
  });

  test.each([440, 1000, 2500])('in a tone of %i Hz that Opus has coded', async (hz) => {
    const sound = await decodeOpus(await opusTone(hz, 0.3, 1000));
    expect(findGlitches(sound.subarray(4800))).toEqual([]);
  });

  test('where a tone fades in 5 ms', () => {
    const sound = tones(500, 900).map(
      (sample, i) => sample * Math.min(1, Math.max(0.3, (MIDDLE - i) / 240)),
    );
    expect(findGlitches(sound)).toEqual([]);
  });
});

describe.each([
  ['a low tone', tones(300)],
  ['three tones', tones(500, 900, 1700)],
  ['a sweep', sweep],
])('findGlitches() in %s finds', (_name, sound) => {
  test.each([20, 100, 700])('%i samples that are missing', (count) => {
    const glitches = findGlitches(cutOut(sound, MIDDLE, count));
    expect(glitches).toEqual([near('click')]);
    expect(Math.abs(glitches[0]!.atMs - MIDDLE / 48)).toBeLessThan(2);
  });

  test('one wrong sample', () => {
    const broken = sound.slice();
    broken[MIDDLE]! += 0.1;
    expect(findGlitches(broken)).toEqual([near('click')]);
  });

  test('3 ms without sound', () => {
    const broken = sound.slice().fill(0, MIDDLE, MIDDLE + 144);
    expect(findGlitches(broken)).toContainEqual(near('gap'));
  });

  test('a frame that comes twice', () => {
    const at = 23_040;
    const broken = Float32Array.from([...sound.subarray(0, at + 960), ...sound.subarray(at)]);
    // 20 ms hold a whole number of periods of some tones: nobody hears those twice.
    const isHeard = Math.abs(sound[at]! - sound[at + 960]!) > 0.01;
    expect(findGlitches(broken).length > 0).toBe(isHeard);
  });

  test('a sound whose sign is turned over', () => {
    const broken = sound.map((sample, i) => (i < MIDDLE ? sample : -sample));
    expect(findGlitches(broken)).toEqual([near('click')]);
  });
});
