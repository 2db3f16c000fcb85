import { expect, test } from 'vitest';
import { BadMessageBudget } from '../../../src/session/bad-message-budget.ts';

test('BadMessageBudget.spend() is true for the 20th bad message in 10 s, not for slower ones', () => {
  const fast = new BadMessageBudget();
  const answers = Array.from({ length: 20 }, (_, i) => fast.spend(i * 500));
  expect(answers.indexOf(true)).toBe(19);
  const slow = new BadMessageBudget();
  expect(Array.from({ length: 100 }, (_, i) => slow.spend(i * 600))).not.toContain(true);
});
