import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  MAX_SNIFFED_BYTES,
  recognise,
  type RecognisedFormat,
  sniff,
} from '../../../src/audio/recognise.ts';
import { openSampleWriter } from '../../../src/audio/samples.ts';
import { oggOpus, webmOpus } from '../../support/containers.ts';
import { readFixture, SPEECH } from '../../support/fixtures.ts';
import { opusTone } from '../../support/sound.ts';

const packets = await opusTone(440, 0.3, 400);
const STREAMS: [string, RecognisedFormat, Buffer][] = [
  ['speech.wav', 'wav', readFixture('speech.wav')],
  ['speech.mp3', 'mp3', readFixture('speech.mp3')],
  ['speech-id3.mp3', 'mp3', readFixture('speech-id3.mp3')],
  ['speech.aac', 'aac_adts', readFixture('speech.aac')],
  ['speech.mp4', 'mp4_aac', readFixture('speech.mp4')],
  ['speech.flac', 'flac', readFixture('speech.flac')],
  ['speech.oga', 'ogg_flac', readFixture('speech.oga')],
  ['speech.ogg', 'ogg_vorbis', readFixture('speech.ogg')],
  ['Ogg Opus', 'ogg_opus', Buffer.concat(oggOpus(packets, 20))],
  ['WebM Opus', 'webm_opus', Buffer.concat(webmOpus(packets, 20))],
];

describe.each(STREAMS)('%s', (_name, codec, stream) => {
  test('recognise() tells it by its first 8 KB', () => {
    expect(recognise(stream.subarray(0, MAX_SNIFFED_BYTES))).toBe(codec);
  });

  test('recognise() of what is too short for that asks for more, and never says anything else', () => {
    const answers = new Set<string | undefined>();
    for (let length = 0; length < 2000; length += 1)
      answers.add(recognise(stream.subarray(0, length)));
    expect([...answers].filter((answer) => answer !== 'more')).toEqual(
      answers.has(codec) ? [codec] : [],
    );
  });
});

test.each([
  ['speech.mp3', 'mp3'],
  ['speech-id3.mp3', 'mp3'],
  ['speech.aac', 'aac_adts'],
] as const)('recognise() of the middle of %s, wherever it is cut', (name, codec) => {
  const stream = readFixture(name);
  for (let from = 1500; from < 4000; from += 37) {
    expect(recognise(stream.subarray(from, from + MAX_SNIFFED_BYTES))).toBe(codec);
  }
});

describe('bytes of none of these formats', () => {
  const raw = (codec: 'pcm_s16le' | 'pcm_f32le' | 'pcmu' | 'pcma' | 'g722') =>
    openSampleWriter(codec)(SPEECH);

  test.each(['pcm_s16le', 'pcm_f32le', 'pcmu', 'pcma', 'g722'] as const)(
    'recognise() takes no speech as %s for any of them',
    (codec) => {
      const bytes = raw(codec);
      for (let from = 0; from + 1000 < bytes.length; from += 997) {
        expect(recognise(bytes.subarray(from, from + MAX_SNIFFED_BYTES))).toBeUndefined();
      }
    },
  );

  test('recognise() takes Opus packets, Speex in Ogg and silence for none of them', () => {
    for (const packet of packets) expect(recognise(packet)).toBeUndefined();
    expect(recognise(readFixture('speech.spx'))).toBeUndefined();
    for (const byte of [0x00, 0x7f, 0x80, 0xd5, 0xff]) {
      expect(recognise(Buffer.alloc(MAX_SNIFFED_BYTES, byte))).toBeUndefined();
    }
  });

  test('recognise() takes random bytes for none of them', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 64, maxLength: MAX_SNIFFED_BYTES }), (bytes) => {
        expect([undefined, 'more']).toContain(recognise(Buffer.from(bytes)));
      }),
      { seed: 1, numRuns: 300 },
    );
  });

  test('sniff() of sync words alone says no', () => {
    expect(sniff('mp3', Buffer.alloc(MAX_SNIFFED_BYTES, Buffer.from('fffb', 'hex')))).toBe('no');
    expect(sniff('aac_adts', Buffer.alloc(MAX_SNIFFED_BYTES, Buffer.from('fff1', 'hex')))).toBe(
      'no',
    );
    expect(sniff('flac', Buffer.alloc(MAX_SNIFFED_BYTES, Buffer.from('fff8', 'hex')))).toBe('no');
  });
});
