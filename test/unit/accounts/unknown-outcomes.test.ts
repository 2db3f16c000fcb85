import { expect, test } from 'vitest';
import { createdWithoutKey } from '../../../src/accounts/unknown-outcomes.ts';

test.each([
  [undefined, 'Revoke any key that it has, and add another.'],
  [
    'https://example.com/hook',
    'Revoke any key that it has, add another, and set its webhook URL again.',
  ],
])('createdWithoutKey() with the webhook URL %s says "%s"', (url, advice) => {
  expect(createdWithoutKey(7, url)).toBe(
    `Account 7 was created, but no key of it can be shown. ${advice}`,
  );
});
