import { expect, test } from 'vitest';
import { Downmixer } from '../../../../src/audio/ingest/downmixer.ts';

/** Interleaves two channels that are the same all the time. */
const both = (first: number, second: number, samples = 4) =>
  Float32Array.from({ length: 2 * samples }, (_, i) => (i % 2 === 0 ? first : second));

const mixed = (downmixer: Downmixer, samples: Float32Array) => [...downmixer.process(samples)];

test('two channels: their mean', () => {
  const downmixer = new Downmixer(2);
  expect(mixed(downmixer, both(0.25, 0.5))).toEqual([0.375, 0.375, 0.375, 0.375]);
  expect(mixed(downmixer, both(0.5, 0.25))).toEqual([0.375, 0.375, 0.375, 0.375]);
});

test('a first channel that is silent from the beginning: the second as it is', () => {
  const downmixer = new Downmixer(2);
  expect(mixed(downmixer, both(0, 0.5))).toEqual([0.5, 0.5, 0.5, 0.5]);
  expect(mixed(downmixer, both(0, 0))).toEqual([0, 0, 0, 0]);
  expect(mixed(downmixer, both(0, -0.5))).toEqual([-0.5, -0.5, -0.5, -0.5]);
});

test('both channels begin after silence: their mean at once', () => {
  const downmixer = new Downmixer(2);
  downmixer.process(both(0, 0));
  expect(mixed(downmixer, both(0.5, 0.25))).toEqual([0.375, 0.375, 0.375, 0.375]);
});

test('a first channel that begins long after the second: fades to the mean within 240 samples', () => {
  const downmixer = new Downmixer(2);
  downmixer.process(both(0, 0.5));
  const faded = downmixer.process(both(0.25, 0.5, 480));
  expect(faded[0]).toBe(0.5);
  expect(faded[120]).toBe(0.4375);
  expect(new Set(faded.subarray(240))).toEqual(new Set([0.375]));
});

test('a first channel that begins within a message: fades from there on', () => {
  const silent = both(0, 0.5, 480);
  const faded = new Downmixer(2).process(Float32Array.of(...silent, ...both(0.25, 0.5, 480)));
  expect(new Set(faded.subarray(0, 481))).toEqual(new Set([0.5]));
  expect(faded[600]).toBe(0.4375);
  expect(new Set(faded.subarray(720))).toEqual(new Set([0.375]));
});

test('a first channel that begins later: fades to the mean, which stays', () => {
  const downmixer = new Downmixer(2);
  downmixer.process(both(0, 0.5));
  expect(mixed(downmixer, both(0.25, 0.5))).toEqual([0.5, 0.46875, 0.4375, 0.40625]);
  expect(mixed(downmixer, both(0, 0.5))).toEqual([0.25, 0.25, 0.25, 0.25]);
});

test('a second channel that is silent: their mean', () => {
  const downmixer = new Downmixer(2);
  downmixer.process(both(0.5, 0));
  expect(mixed(downmixer, both(0.5, 0))).toEqual([0.25, 0.25, 0.25, 0.25]);
});

test('one channel: as it is', () => {
  const samples = Float32Array.of(0, 0.5);
  expect(new Downmixer(1).process(samples)).toBe(samples);
});
