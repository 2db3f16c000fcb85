import { readFixture } from './fixtures.ts';

/** Samples of a run: how many it announces, their length, and whether that is told for each (of at most eight) or for all. */
export type SampleRun = { count: number; sampleBytes: number; isListed: boolean };

/** Flags of the boxes `tfhd` and `trun`. */
const SIZE_FOR_ALL = 0x10;
const SIZE_OF_EACH = 0x200;
const OFFSET = 0x1;
const BASE_OFFSET = 0x1;
const BASE_IS_FRAGMENT = 0x02_0000;
const BASE_OFFSET_BYTES = 8;

const mp4Box = (type: string, ...contents: Buffer[]): Buffer => {
  const content = Buffer.concat(contents);
  const head = Buffer.alloc(8);
  head.writeUInt32BE(content.length + head.length);
  head.write(type, 4, 'latin1');
  return Buffer.concat([head, content]);
};

const words = (...values: number[]): Buffer => {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [i, value] of values.entries()) bytes.writeUInt32BE(value, 4 * i);
  return bytes;
};

/**
 * Makes a fragmented MP4 file: the head of a recorded one, a fragment with some runs, and bytes of samples behind it.
 * @param mediaBytes length of the samples
 */
export function mp4Of(runs: SampleRun[], mediaBytes: number): Buffer {
  const file = readFixture('speech.mp4');
  const head = file.subarray(0, file.indexOf('moof') - 4);
  const trackHeader = head.subarray(head.indexOf('tkhd') + 4);
  const id = trackHeader.readUInt32BE(trackHeader[0] === 1 ? 20 : 12);
  // From the beginning of the fragment to the samples, where all runs are of samples alike: heads
  // of five boxes and what is in them.
  const samplesAt = 8 + 8 + 20 + 20 + 16 * (runs.length - 1) + 8;
  const boxes = runs.map(({ count, sampleBytes, isListed }, i) => {
    const offset = i === 0 ? [samplesAt] : [];
    const flags = (isListed ? SIZE_OF_EACH : 0) | (i === 0 ? OFFSET : 0);
    const sizes = isListed ? Array<number>(Math.min(count, 8)).fill(sampleBytes) : [];
    return mp4Box('trun', words(flags, count, ...offset, ...sizes));
  });
  const header = mp4Box('tfhd', words(SIZE_FOR_ALL, id, runs[0]?.sampleBytes ?? 0));
  const fragment = mp4Box('moof', mp4Box('traf', header, ...boxes));
  return Buffer.concat([head, fragment, mp4Box('mdat', Buffer.alloc(mediaBytes, 0x21))]);
}

/**
 * Returns the recorded file with the position of each fragment in its track header, from which samples are found, as ffmpeg writes it without
 * `default_base_moof`.
 */
export function mp4WithPositions(): Buffer {
  const file = readFixture('speech.mp4');
  const parts: Buffer[] = [];
  let writtenBytes = 0;
  for (let at = 0; at < file.length;) {
    const box = file.subarray(at, at + file.readUInt32BE(at));
    at += box.length;
    const isFragment = box.toString('latin1', 4, 8) === 'moof';
    parts.push(isFragment ? withPosition(box, writtenBytes) : box);
    writtenBytes += parts.at(-1)!.length;
  }
  return Buffer.concat(parts);
}

function withPosition(moof: Buffer, position: number): Buffer {
  const [traf, tfhd, trun] = ['traf', 'tfhd', 'trun'].map((type) => moof.indexOf(type) - 4);
  const base = Buffer.alloc(BASE_OFFSET_BYTES);
  base.writeBigUInt64BE(BigInt(position));
  const changed = Buffer.from(moof);
  for (const at of [0, traf!, tfhd!]) {
    changed.writeUInt32BE(moof.readUInt32BE(at) + BASE_OFFSET_BYTES, at);
  }
  // Behind the head of a box: its flags, and then the id of the track, or the number of samples and
  // their offset.
  changed.writeUInt32BE(
    (moof.readUInt32BE(tfhd! + 8) & ~BASE_IS_FRAGMENT) | BASE_OFFSET,
    tfhd! + 8,
  );
  changed.writeInt32BE(moof.readInt32BE(trun! + 16) + BASE_OFFSET_BYTES, trun! + 16);
  const baseAt = tfhd! + 16;
  return Buffer.concat([changed.subarray(0, baseAt), base, changed.subarray(baseAt)]);
}
