import { expect, test } from 'vitest';
import { guestName } from '../../../src/accounts/invites.ts';
import { checkName } from '../../../src/protocol/names.ts';

const ENGLAND = '\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}';
const FAMILY = '\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}';

test.each([
  ['Ada', 'Ada'],
  [undefined, 'guest'],
  ['x'.repeat(119), 'x'.repeat(119)],
  ['x'.repeat(120), 'x'.repeat(119)],
  ['x'.repeat(8000), 'x'.repeat(119)],
  ['😀'.repeat(129), '😀'.repeat(119)],
  // A grapheme is kept whole or left out.
  [`${'a'.repeat(112)}${ENGLAND}b`, `${'a'.repeat(112)}${ENGLAND}`],
  [`${'a'.repeat(115)}${ENGLAND}`, 'a'.repeat(115)],
  [`${'a'.repeat(116)}${FAMILY}`, 'a'.repeat(116)],
  [`${'a'.repeat(118)}\u{9089}\u{E0100}`, 'a'.repeat(118)],
  [`${'a'.repeat(118)}e\u{301}`, 'a'.repeat(118)],
  [`a${'\u{301}'.repeat(200)}`, `a${'\u{301}'.repeat(118)}`],
])('a guest that calls itself %j has a name of a peer', (name, kept) => {
  const peer = guestName(name);
  expect(peer.slice(0, -9)).toBe(kept);
  expect(peer.slice(-9)).toMatch(/^-[0-9a-z]{8}$/);
  expect(checkName(peer, 'peer', 'bad_request')).toBe(peer);
});

test.each(['', '__x', '..', 'a\nb', ' '.repeat(200), '\u{1F3F4}\u{E0067}', 'M\u{fffd}ller'])(
  'a guest cannot call itself %j',
  (name) => {
    expect(() => guestName(name)).toThrow('"name" must');
  },
);
