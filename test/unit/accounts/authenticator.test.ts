import { expect, test } from 'vitest';
import { bearerOf } from '../../../src/accounts/authenticator.ts';

test.each([
  ['Bearer pl_key', 'pl_key'],
  ['bearer pl_key', 'pl_key'],
  ['Bearer  pl_key', 'pl_key'],
  ['Bearer pl_key anything', undefined],
  ['Bearer', undefined],
  ['Bearer ', undefined],
  ['Bearerpl_key', undefined],
  ['Basic eDp5', undefined],
  [undefined, undefined],
])('the secret of the header "Authorization: %s" is %s', (header, secret) => {
  expect(bearerOf(header)).toBe(secret);
});
