import { expect, test } from 'vitest';
import { deviceNames } from '../../../web/device-names.ts';
import { guestEndWords, microphoneWords, speakerWords } from '../../../web/words.ts';

/** Sentences of the page. */

const EXPIRES_AT_MS = Date.UTC(2026, 0, 2);

test('a guest whose time is over may come in again, which one whose invitation is over or was withdrawn cannot', () => {
  const guest = { expiresAtMs: EXPIRES_AT_MS, invitedUntilMs: EXPIRES_AT_MS + 60_000 };
  expect(guestEndWords(guest, EXPIRES_AT_MS)).toContain('Press Join');
  expect(guestEndWords(guest, EXPIRES_AT_MS - 1000)).toContain('withdrawn');
  expect(guestEndWords(guest, EXPIRES_AT_MS + 60_000)).toContain('Ask for a new one');
  // As those of the page, which hold for a day.
  const ofPage = { expiresAtMs: EXPIRES_AT_MS, invitedUntilMs: EXPIRES_AT_MS };
  expect(guestEndWords(ofPage, EXPIRES_AT_MS)).toContain('Ask for a new one');
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
