import { expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { replaceAfterMs } from '../../../src/media/media-worker-slot.ts';

test('a media worker that keeps dying is replaced ever more seldom, at most every 30 s', () => {
  const waitsMs = [1, 2, 3, 4, 5, 6, 7, 8, 9, 100].map((deaths) =>
    replaceAfterMs(deaths, DEFAULT_TIMINGS.mediaWorkers),
  );
  expect(waitsMs).toEqual([0, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
});
