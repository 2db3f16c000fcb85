import { expect, test } from 'vitest';
import { MPEG_FRAMES } from '../../../../src/audio/frames/mpeg-frame.ts';
import { DECODED_FORMATS } from '../../../../src/audio/ingest/decoded-formats.ts';

/** Makes a frame of zeros, but for a name in it. */
function frameOf(header: number[], name = '', at = 0): Buffer {
  const head = Buffer.from(header);
  const frame = Buffer.alloc(MPEG_FRAMES.parse(head, 0)!.bytes);
  head.copy(frame);
  frame.write(name, at, 'latin1');
  return frame;
}

/** Returns the durations of the frames with sound in three files of `first` and a frame of silence each, ms. */
function soundOf(first: Buffer, header: number[]): number[] {
  const durations: number[] = [];
  const reader = DECODED_FORMATS.mp3.openReader((_frame, durationMs) => durations.push(durationMs));
  const file = Buffer.concat([first, frameOf(header)]);
  // The reader looks for the frame after the first one.
  reader.push(Buffer.concat([file, file, file, frameOf(header).subarray(0, 10)]));
  return durations;
}

test.each([
  ['MPEG-1, stereo', [0xff, 0xfb, 0x90, 0x00], 'Xing', 36],
  ['MPEG-1, mono', [0xff, 0xfb, 0x90, 0xc0], 'Info', 21],
  ['MPEG-1, mono, with a checksum', [0xff, 0xfa, 0x90, 0xc0], 'Info', 23],
  ['MPEG-2, stereo', [0xff, 0xf3, 0x80, 0x00], 'Xing', 21],
  ['MPEG-2, mono', [0xff, 0xf3, 0x80, 0xc0], 'Info', 13],
  ['MPEG-2.5, mono', [0xff, 0xe3, 0x80, 0xc0], 'Xing', 13],
  ['MPEG-1, mono', [0xff, 0xfb, 0x90, 0xc0], 'VBRI', 36],
])('the frame of %s that describes a file (%o: %s at %i) is no sound', (_, header, name, at) => {
  expect(soundOf(frameOf(header, name, at), header)).toHaveLength(3);
  // Nor is it taken for such a frame with the name elsewhere.
  expect(soundOf(frameOf(header, name, at + 1), header)).toHaveLength(6);
});

test('a frame of Layer II with that name in it is sound', () => {
  const header = [0xff, 0xfd, 0x80, 0x00];
  expect(soundOf(frameOf(header, 'Xing', 36), header)).toHaveLength(6);
});
