import { TokenError } from 'partyline-client';
import { expect, test } from 'vitest';
import { accountFault } from '../../../src/accounts/authenticator.ts';
import type { Account } from '../../../src/accounts/accounts.ts';
import { deviceNames } from '../../../web/device-names.ts';
import {
  endWords,
  guestEndWords,
  isInvitationOver,
  isKeyUnknown,
  microphoneWords,
  speakerWords,
} from '../../../web/words.ts';

/** Sentences of the page. */

const EXPIRES_AT_MS = Date.UTC(2026, 0, 2);

test('a guest whose token has expired may join again, but not after the end of its invitation', () => {
  const guest = { expiresAtMs: EXPIRES_AT_MS, invitedUntilMs: EXPIRES_AT_MS + 60_000 };
  expect(guestEndWords(guest, EXPIRES_AT_MS)).toContain('Press Join');
  expect(guestEndWords(guest, EXPIRES_AT_MS - 1000)).toContain('withdrawn');
  expect(guestEndWords(guest, EXPIRES_AT_MS + 60_000)).toContain('Ask for a new one');
  // As those of the page, which hold for a day.
  const ofPage = { expiresAtMs: EXPIRES_AT_MS, invitedUntilMs: EXPIRES_AT_MS };
  expect(guestEndWords(ofPage, EXPIRES_AT_MS)).toContain('Ask for a new one');
});

test('an invitation is over if the gateway, not a proxy, does not find it', () => {
  const reason = { closeCode: 1006, message: 'No.', retryable: false };
  const refusal = (code: string) => new TokenError({ ...reason, code });
  expect(isInvitationOver(refusal('not_found'))).toBe(true);
  expect(isInvitationOver(refusal('unreachable'))).toBe(false);
  expect(isInvitationOver(new TypeError('Failed to fetch'))).toBe(false);
});

test('a key without a token is not known; a close with 4401 gives its own reason', () => {
  const reason = { code: 'unauthorized', closeCode: 1006, message: 'No.', retryable: false };
  expect(isKeyUnknown(reason)).toBe(true);
  expect(endWords(reason)).toContain('does not know this API key');
  const account = { status: 'active' } as Account;
  const keys = { keyIds: new Set<string>(), withdrawn: new Set(['leaked']) };
  const ended = (signedBy: string) => {
    const { message } = accountFault(account, keys, { keyId: 'k', signedBy })!;
    const closed = { ...reason, closeCode: 4401, message };
    expect(isKeyUnknown(closed)).toBe(false);
    return endWords(closed);
  };
  expect(ended('leaked')).toBe('The token has been withdrawn. Press Join to enter again.');
  // A press of Join would be refused.
  expect(ended('present')).toBe('The API key has been revoked.');
  const message = 'The account does not exist any more.';
  expect(endWords({ ...reason, closeCode: 4401, message })).toBe(message);
});

test('a device that cannot be used has words, also where the browser has none', () => {
  // As in browsers whose OverconstrainedError is no Error.
  const gone = { name: 'OverconstrainedError', message: '', constraint: 'deviceId' };
  expect(microphoneWords(gone, true)).toBe(
    'This microphone is no longer available. The previous microphone stays in use.',
  );
  for (const words of [microphoneWords, speakerWords]) {
    expect(words(new DOMException('', 'AbortError'), true)).toContain('could not start');
  }
  expect(speakerWords(new DOMException('', 'NotFoundError'))).toContain('no longer available');
});

test('devices of the same name are numbered, and so are those without one', () => {
  expect(deviceNames(['USB', 'Built-in', 'USB', ''])).toEqual([
    'USB (1)',
    'Built-in',
    'USB (2)',
    '4',
  ]);
});
