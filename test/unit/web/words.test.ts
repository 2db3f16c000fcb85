import { expect, test } from 'vitest';
import { guestEndWords } from '../../../web/words.ts';

/** Sentences of the page. */

const EXPIRES_AT = '2026-01-02T00:00:00.000Z';

test('a guest whose time is over may come in again, which one whose invitation was withdrawn cannot', () => {
  const expiresMs = Date.parse(EXPIRES_AT);
  expect(guestEndWords(EXPIRES_AT, expiresMs)).toContain('Press Join');
  expect(guestEndWords(EXPIRES_AT, expiresMs - 1000)).toContain('withdrawn');
});
