import { expect, test } from 'vitest';
import { measureUsualSlowness, slownessOfPart } from '../../../../scripts/test/machine-speed.mjs';

test.each([
  { found: [1, 3, 1.1], usual: 1.1 },
  { found: [0.2, 2, 2.1], usual: 2 },
  { found: [undefined, 2, 2], usual: 2 },
  { found: [undefined, undefined, undefined], usual: undefined },
])('measurements of $found count as $usual', async ({ found, usual }) => {
  const left: (number | undefined)[] = [...found];
  expect(await measureUsualSlowness(() => Promise.resolve(left.shift()))).toBe(usual);
});

test.each([
  { before: 1, after: 2.6, factor: 2.6 },
  { before: 2.6, after: 1, factor: 2.6 },
  { before: 0.8, after: 0.9, factor: 1 },
  { before: 1, after: 9, factor: 4 },
])('a machine of $before before a part and $after after it has $factor times as long', (each) => {
  expect(slownessOfPart(each.before, each.after)).toBe(each.factor);
});
