import { describe, expect, test } from 'vitest';
import { checkName } from '../../../src/protocol/names.ts';

const check = (name: string) => checkName(name, 'peer', 'bad_request');

test.each([
  'Ada',
  'Ада Λ 愛 아다',
  '\u{1F469}\u{200D}\u{1F680}', // an emoji with a joiner
  '\u{2764}\u{FE0F}', // a heart with a variation selector
  '\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}', // the flag of England
  '\u{6E21}\u{9089}\u{E0100}', // a family name with a variant of an ideograph
  '\u{182A}\u{1820}\u{180B}', // Mongolian with a variant of a letter
  '\u{0646}\u{200C}\u{0647}', // Persian with a non-joiner
  'a\u{2800}', // an empty pattern of braille
])('the name %j is accepted', (name) => {
  expect(check(name)).toBe(name);
});

test.each([
  0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x180b, 0x180e, 0x200b, 0x200e, 0x202e, 0x2060,
  0x2065, 0x206a, 0x206f, 0x3164, 0xfeff, 0xffa0, 0xfff0, 0xfff9, 0xfffb, 0x1bca0, 0x1d173, 0xe0001,
  0xe0041, 0xe0067, 0xe007f, 0xe0100, 0xe0fff,
])('a name with the invisible character U+%x is refused', (character) => {
  expect(() => check(`alice${String.fromCodePoint(character)}`)).toThrow('must be printable');
});

test.each([
  '\u{1F3F4}\u{E0067}', // an unfinished flag
  '\u{1F3F4}\u{E0061}\u{E0062}\u{E007F}', // a flag that does not exist
  '\u{9089}\u{E0100}\u{E0100}',
])('characters that need a context are refused without it: %j', (name) => {
  expect(() => check(name)).toThrow('must be printable');
});

test.each([' ', '\u{2800}', '\u{2800} \u{A0}', '\u{200D}', '\u{FE0F}'])(
  'the name %j is refused because it shows nothing',
  (name) => {
    expect(() => check(name)).toThrow('must be printable');
  },
);

test('a name with bytes that are not UTF-8 is refused: others would read as the same', () => {
  const [muller, moller] = ['M%FCller', 'M%F6ller'].map((name) =>
    String(new URLSearchParams(`peer=${name}`).get('peer')),
  );
  expect(muller).toBe(moller);
  expect(() => check(muller!)).toThrow('must be UTF-8');
});

describe('checkName()', () => {
  const checkRoom = (name: string) => checkName(name, 'room', 'bad_request');

  test.each([
    'a',
    'Küche',
    '会議室',
    '👩‍👩‍👧‍👦',
    'with space',
    '_x',
    '❤️',
    'می\u200cخواهم',
    '\ue000',
    '...',
    '.a',
    'x'.repeat(128),
    '😀'.repeat(128),
  ])('takes "%s"', (name) => {
    expect(checkRoom(name)).toBe(name);
  });

  test.each([
    '',
    '.',
    '..',
    '__x',
    '__lobby__',
    'x'.repeat(129),
    '😀'.repeat(129),
    'a\nb',
    'a\0',
    '\u2028',
    '\ud800',
    ' ',
    '\u00a0',
    '\u3164',
    'P\u200b',
    '\u202ekcaJ',
    '\ufeffa',
    '\ufffe',
    '\ufe0f',
  ])('refuses %j', (name) => {
    expect(() => checkRoom(name)).toThrow(expect.objectContaining({ code: 'bad_request' }));
  });
});
