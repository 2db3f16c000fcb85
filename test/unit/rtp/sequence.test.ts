import { describe, expect, test } from 'vitest';
import { sequenceDelta, timestampDelta } from '../../../src/rtp/sequence.ts';

describe('sequenceDelta()', () => {
  test.each([
    [0, 1, 1],
    [65535, 0, 1],
    [0, 65535, -1],
    [65530, 4, 10],
    [4, 65530, -10],
    [0, 32767, 32767],
    [0, 32769, -32767],
  ])('from %i to %i is %i', (from, to, delta) => {
    expect(sequenceDelta(from, to)).toBe(delta);
  });
});

test('timestampDelta() counts across the 32-bit edge both ways', () => {
  expect(timestampDelta(4294967295, 959)).toBe(960);
  expect(timestampDelta(959, 4294967295)).toBe(-960);
});
