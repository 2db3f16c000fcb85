import { expect, test } from 'vitest';
import { isHung } from '../../../src/media/media-worker.ts';

test.each([
  [2, false, false],
  [3, false, true],
  [3, true, false],
  [19, true, false],
  [20, true, true],
])('after %i unanswered probes, working meanwhile: %s, a media worker hangs: %s', (...row) => {
  const [unansweredProbes, hasWorked, hangs] = row;
  expect(isHung(unansweredProbes, hasWorked)).toBe(hangs);
});
