import { describe, expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { EncoderSteps } from '../../../src/load/encoder-steps.ts';
import type { LoadLevel } from '../../../src/load/load-level.ts';

describe('the complexity of the encoders', () => {
  /** Each complexity that there was, with the second from which on. */
  function course(wanted: number, levels: LoadLevel[]): [number, number][] {
    const steps = new EncoderSteps(wanted, DEFAULT_TIMINGS.load);
    const changes: [number, number][] = [];
    for (const [second, level] of levels.entries()) {
      const complexity = steps.at(level, second * 1000);
      if (changes.at(-1)?.[1] !== complexity) changes.push([second, complexity]);
    }
    return changes;
  }
  const seconds = (count: number, level: LoadLevel) => Array<LoadLevel>(count).fill(level);

  test('goes down by steps while the load lasts, and up again slowly', () => {
    const levels = [...seconds(2, 'normal'), ...seconds(8, 'strained'), ...seconds(60, 'normal')];
    expect(course(5, levels)).toEqual([
      [0, 5],
      [2, 3],
      [4, 1],
      [6, 0],
      [24, 1],
      [39, 3],
      [54, 5],
    ]);
  });

  test('goes no further than it must, and never above what is wanted', () => {
    const levels = [...seconds(1, 'overloaded'), ...seconds(100, 'normal')];
    expect(course(10, levels)).toEqual([
      [0, 8],
      [15, 10],
    ]);
    expect(course(4, levels)).toEqual([
      [0, 3],
      [15, 4],
    ]);
    expect(course(0, levels)).toEqual([[0, 0]]);
  });
});
