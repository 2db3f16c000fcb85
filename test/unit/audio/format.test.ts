import { Compile } from 'typebox/compile';
import { expect, test } from 'vitest';
import { StoredAccountSchema } from '../../../src/accounts/stored-account.ts';
import {
  describeFormats,
  formatAudioFormat,
  parseAudioFormat,
  parseDeclaredFormat,
  parseOutputFormat,
} from '../../../src/audio/format.ts';

const account = Compile(StoredAccountSchema);
const isAccepted = (fields: object) =>
  account.Check({ id: 1, name: 'Ada', email: 'a@b.c', plan: 'free', status: 'active', ...fields });

function isParsed(parse: (value: string) => unknown, value: string): boolean {
  try {
    parse(value);
    return true;
  } catch {
    return false;
  }
}

test('the formats that are described are those that are taken', () => {
  const formats = describeFormats();
  expect(formats.length).toBeGreaterThan(20);
  for (const { value, isInputOnly } of formats) {
    const example = value.replace('rate=R;channels=C', 'rate=48000;channels=2');
    const isAsked = isParsed(parseOutputFormat, example);
    expect({ value, isTaken: isParsed(parseDeclaredFormat, example), isAsked }).toEqual({
      value,
      isTaken: true,
      // `audio_out=auto` is the format in which the client sends, and is not parsed.
      isAsked: !isInputOnly && value !== 'auto',
    });
  }
});

test('parseAudioFormat() takes the rates 8000 to 48000, and an account the same', () => {
  const wrong: string[] = [];
  for (let rateHz = 0; rateHz < 100_100; rateHz += 1) {
    const value = `pcm_s16le;rate=${rateHz};channels=1`;
    const isKnown = rateHz >= 8000 && rateHz <= 48_000;
    const answers = [
      isParsed(parseAudioFormat, value),
      isAccepted({ default_audio: value }),
      isAccepted({ pinned_audio: value }),
    ];
    if (answers.some((answer) => answer !== isKnown)) wrong.push(value);
  }
  expect(wrong).toEqual([]);
});

test.each([
  'opus',
  'pcmu',
  'pcma',
  'g722',
  'pcm_f32le;rate=44100;channels=2',
  'pcm_s16be;rate=8000;channels=1',
  'pcm_u8;rate=11025;channels=2',
  'pcm_s24le;rate=48000;channels=2',
  'pcm_s32le;rate=16000;channels=1',
])('%s: heard and sent', (value) => {
  expect(isParsed(parseAudioFormat, value)).toBe(true);
  expect(isParsed(parseDeclaredFormat, value)).toBe(true);
  expect(formatAudioFormat(parseDeclaredFormat(value))).toBe(value);
  expect(isAccepted({ default_audio: value, pinned_audio: value })).toBe(true);
});

test.each(['ogg_opus', 'webm_opus', 'wav', 'mp3', 'flac', 'ogg_flac', 'ogg_vorbis'])(
  '%s: sent only',
  (value) => {
    expect(isParsed(parseAudioFormat, value)).toBe(false);
    expect(isParsed(parseDeclaredFormat, value)).toBe(true);
    expect(isAccepted({ default_audio: value })).toBe(false);
    expect(isAccepted({ pinned_audio: value })).toBe(true);
  },
);

test('opaque: sent, and heard where a peer asks for it', () => {
  expect(isParsed(parseAudioFormat, 'opaque')).toBe(false);
  expect(isParsed(parseOutputFormat, 'opaque')).toBe(true);
  expect(isParsed(parseDeclaredFormat, 'opaque')).toBe(true);
  expect(isAccepted({ default_audio: 'opaque' })).toBe(false);
  expect(isAccepted({ pinned_audio: 'opaque' })).toBe(true);
});

test.each([
  '',
  'OPUS',
  'opus ',
  'xopus',
  'opus|pcmu',
  'pcm_s16le',
  'pcm_s16le;rate=08000;channels=1',
  'pcm_s16le;rate=8000;channels=3',
  'pcm_s16le;rate=8000;channels=1\n',
  'pcmu;rate=8000;channels=1',
  'g722;rate=16000;channels=1',
  'pcm_u16le;rate=8000;channels=1',
])('%j: neither heard nor sent', (value) => {
  expect(isParsed(parseAudioFormat, value)).toBe(false);
  expect(isParsed(parseDeclaredFormat, value)).toBe(false);
  // An empty one takes the value away.
  expect(isAccepted({ default_audio: value })).toBe(value === '');
});
