import { expect, test } from 'vitest';
import { OpusOutput } from '../../../../src/audio/mixing/opus-output.ts';
import type { OpusCodec } from '../../../../src/audio/opus-codec.ts';

const FRAME = 960;

/** An output whose encoder keeps what it is given. */
async function openOutput() {
  const encoded: number[] = [];
  const take = (frame: Float32Array) => {
    encoded.push(...frame);
    return Buffer.of(encoded.length / FRAME);
  };
  const codec: Pick<OpusCodec, 'createEncoder'> = {
    createEncoder: () =>
      Promise.resolve({ encode: take, prime: take, beginAnew: () => {}, close: () => {} }),
  };
  const output = new OpusOutput('opus', codec, (fault) => {
    throw fault;
  });
  await Promise.resolve();
  await Promise.resolve();
  return { output, encoded };
}

const ramp = (from: number) => Float32Array.from({ length: FRAME }, (_, i) => from + i);

test('one that is late: everything comes that number of samples later, whole', async () => {
  const { output, encoded } = await openOutput();
  output.prime(ramp(0), 100);
  for (const from of [960, 1920]) output.write(ramp(from));
  expect(encoded).toHaveLength(3 * FRAME);
  expect(encoded.slice(100)).toEqual([...ramp(0), ...ramp(960), ...ramp(1920)].slice(0, -100));
  expect(output.lateSamples).toBe(100);
});

test('in a quiet moment it is late no more, without a jump', async () => {
  const { output, encoded } = await openOutput();
  const loud = new Float32Array(FRAME).fill(0.5);
  const quietEnd = loud.map((_, i) => (i < 800 ? 0.5 : 0.001));
  const quiet = loud.map((_, i) => (i < 300 ? 0.001 : 0.5));
  output.prime(loud, 100);
  output.write(quietEnd);
  output.write(quiet);
  output.write(loud);
  expect(output.lateSamples).toBe(0);
  expect(encoded.slice(-FRAME)).toEqual([...loud]);
  expect(encoded.slice(FRAME + 900, 2 * FRAME + 300).every((sample) => sample < 0.01)).toBe(true);
});

test('one that is not late changes nothing', async () => {
  const { output, encoded } = await openOutput();
  output.prime(ramp(0), 0);
  output.write(ramp(960));
  expect(encoded).toEqual([...ramp(0), ...ramp(960)]);
});
