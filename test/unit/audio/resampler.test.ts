import loadSpeex from '@echogarden/speex-resampler-wasm';
import { expect, test, vi } from 'vitest';
import { loadResampler } from '../../../src/audio/resampler.ts';

const openResampler = await loadResampler();

test.each([
  [48_000, 8000],
  [48_000, 11_025],
  [48_000, 44_100],
  [44_100, 48_000],
  [11_025, 12_000],
])('process() from %i to %i Hz in frames of 20 ms has no seam', (fromHz, toHz) => {
  const resampler = openResampler(fromHz, toHz);
  const out: number[] = [];
  const frameSamples = Math.floor(fromHz / 50);
  for (let frame = 0; frame < 100; frame += 1) {
    const samples = Float32Array.from({ length: frameSamples }, (_, i) =>
      Math.sin((2 * Math.PI * 440 * (frame * frameSamples + i)) / fromHz),
    );
    out.push(...resampler.process(samples));
  }
  resampler.close();
  expect(Math.abs(out.length - (frameSamples * 100 * toHz) / fromHz)).toBeLessThan(64);
  // A sine is its own second difference, times a constant: a seam would stand out.
  const factor = 2 - 2 * Math.cos((2 * Math.PI * 440) / toHz);
  let worst = 0;
  for (let i = 500; i < out.length - 1; i += 1) {
    const curvature = 2 * out[i]! - out[i - 1]! - out[i + 1]!;
    worst = Math.max(worst, Math.abs(curvature - factor * out[i]!));
  }
  expect(worst).toBeLessThan(0.01);
});

test('process() after close() throws, also when another resampler has its memory; a second close() does nothing', () => {
  const [one, other] = [openResampler(44_100, 48_000), openResampler(44_100, 48_000)];
  one.close();
  const next = openResampler(44_100, 48_000);
  one.close();
  expect(() => one.process(new Float32Array(882))).toThrow('the resampler is closed');
  for (const resampler of [other, next]) {
    expect(resampler.process(new Float32Array(882)).length).toBeGreaterThan(900);
    resampler.close();
  }
});

test('memory that is not to be had: an error that says so, nothing written, and as before once it is', async () => {
  const speex = await loadSpeex();
  const open = await loadResampler(() => Promise.resolve(speex));
  const resampler = open(44_100, 48_000);
  const samples = new Float32Array(882).fill(0.5);
  // The module replaces its function at the first call, which is over.
  const allocate = vi.spyOn(speex, '_malloc');
  const start = speex.HEAPF32.slice(0, 2 * samples.length);
  allocate.mockReturnValueOnce(0);
  expect(() => resampler.process(samples)).toThrow(/^no memory for \d+ bytes of the resampler$/);
  allocate.mockReturnValueOnce(0);
  expect(() => open(48_000, 8000)).toThrow('no memory for 8 bytes of the resampler');
  expect(speex.HEAPF32.slice(0, start.length)).toEqual(start);
  expect(resampler.process(samples).length).toBeGreaterThan(900);
  resampler.close();
});
