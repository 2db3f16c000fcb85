import { expect, test } from 'vitest';
import { keyPart, tokenPart } from '../../../src/accounts/rate-limits.ts';

test.each([
  ['pl_0123456789', 'pl_01234'],
  ['pl_', 'pl_'],
  ['operator-key-of-the-tests', undefined],
  ['eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl', undefined],
])('keyPart() of %s is %s', (secret, part) => {
  expect(keyPart(secret)).toBe(part);
});

test.each([
  ['eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl', 'bmF0dXJl'],
  ['eyJhbGciOiJIUzI1NiJ9.e30.', 'iJ9.e30.'],
  ['operator-key-of-the-tests', undefined],
  ['operator.key.of-the-tests', undefined],
  ['pl_0123456789', undefined],
])('tokenPart() of %s is %s', (secret, part) => {
  expect(tokenPart(secret)).toBe(part);
});
