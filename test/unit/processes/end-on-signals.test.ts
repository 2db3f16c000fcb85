import { expect, test } from 'vitest';
import { describeStartupError } from '../../../src/processes/end-on-signals.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';

const late = new Error('redis took more than 1500 ms');
const full = new Error('OOM command not allowed');

test.each([
  [
    new PartylineError('overloaded', 'The store cannot be reached.', { cause: late }),
    'The store cannot be reached. Cause: redis took more than 1500 ms',
  ],
  [
    new PartylineError('overloaded', `The store refused: ${full.message}`, { cause: full }),
    'The store refused: OOM command not allowed',
  ],
  [
    new Error('Redis at a:1 cannot be reached', { cause: late }),
    `Redis at a:1 cannot be reached: ${late.message}`,
  ],
  [new Error('no cause'), 'no cause'],
])('describeStartupError() of %o is "%s"', (fault, text) => {
  expect(describeStartupError(fault)).toBe(text);
});
