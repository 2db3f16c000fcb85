/** Boxes of an MP4 file (ISO/IEC 14496-12) that locate its AAC. */

/** Maximum depth of boxes within boxes. */
const MAX_DEPTH = 8;
const HEAD_BYTES = 8;

type Box = { type: string; content: Buffer };

/** Yields the boxes of which bytes consist, not those within them. */
function* boxesOf(bytes: Buffer): Generator<Box> {
  for (let at = 0; at + HEAD_BYTES <= bytes.length;) {
    const size = bytes.readUInt32BE(at);
    if (size < HEAD_BYTES || at + size > bytes.length) throw new Error('A box is too long.');
    yield {
      type: bytes.toString('latin1', at + 4, at + HEAD_BYTES),
      content: bytes.subarray(at + HEAD_BYTES, at + size),
    };
    at += size;
  }
}

const childOf = (bytes: Buffer, path: readonly string[]): Buffer | undefined =>
  path
    .slice(0, MAX_DEPTH)
    .reduce<Buffer | undefined>(
      (within, type) => within && [...boxesOf(within)].find((box) => box.type === type)?.content,
      bytes,
    );

export type AacTrack = {
  id: number;
  /** Index of the sample rate, as in an ADTS header. */
  rateIndex: number;
  channels: number;
  /** Size of samples for which a fragment contains no size. */
  sampleBytes: number;
};

/**
 * Returns the first track of AAC that a `moov` announces.
 * @throws {Error} if there is none, or the file is not fragmented
 */
export function readMovie(moov: Buffer): AacTrack {
  const defaults = childOf(moov, ['mvex', 'trex']);
  if (!defaults) throw new Error('The MP4 file is not fragmented.');
  for (const { type, content } of boxesOf(moov)) {
    if (type !== 'trak') continue;
    const header = childOf(content, ['tkhd']);
    const entries = childOf(content, ['mdia', 'minf', 'stbl', 'stsd']);
    const config = entries && configOf(entries);
    if (!header || !config) continue;
    const id = header.readUInt32BE(header[0] === 1 ? 20 : 12);
    return { id, ...config, sampleBytes: sampleBytesOf(moov, id) };
  }
  throw new Error('The MP4 file has no AAC track.');
}

function sampleBytesOf(moov: Buffer, id: number): number {
  for (const { type, content } of boxesOf(childOf(moov, ['mvex'])!)) {
    if (type === 'trex' && content.readUInt32BE(4) === id) return content.readUInt32BE(16);
  }
  return 0;
}

/** Length of a sample entry before its boxes, bytes (ISO/IEC 14496-12, 12.2.3). */
const ENTRY_BYTES = 28;
const ENTRIES_AT = 8;

function configOf(entries: Buffer) {
  const entry = childOf(entries.subarray(ENTRIES_AT), ['mp4a']);
  const descriptor = entry && childOf(entry.subarray(ENTRY_BYTES), ['esds']);
  return descriptor && parseConfig(specificConfigOf(descriptor.subarray(4)));
}

/** Tags of descriptors (ISO/IEC 14496-1, 7.2.6). */
const STREAM = 3;
const DECODER = 4;
const SPECIFIC = 5;
const DECODER_BYTES = 13;

/** Returns the AudioSpecificConfig, which is in a descriptor in a descriptor in a descriptor. */
function specificConfigOf(bytes: Buffer): Buffer {
  let at = 0;
  for (;;) {
    const tag = bytes[at];
    let size = 0;
    do {
      at += 1;
      size = size * 128 + (bytes[at]! & 0x7f);
    } while ((bytes[at] ?? 0) & 0x80 && at < bytes.length);
    at += 1;
    if (tag === SPECIFIC) return bytes.subarray(at, at + size);
    if (tag === STREAM) at += 3;
    else if (tag === DECODER) at += DECODER_BYTES;
    else throw new Error('The AAC track has no AudioSpecificConfig.');
  }
}

const LOW_COMPLEXITY = 2;
/** Object types whose core is of low complexity: only the core is decoded. */
const WITH_BANDS = [5, 29];
const MAX_RATE_INDEX = 12;

function parseConfig(config: Buffer): { rateIndex: number; channels: number } {
  if (config.length < 2) throw new Error('The AAC track has no AudioSpecificConfig.');
  const head = config.readUInt16BE(0);
  const type = head >> 11;
  const rateIndex = (head >> 7) & 15;
  const channels = (head >> 3) & 15;
  const isShort = type === LOW_COMPLEXITY && (head & 4) !== 0;
  const isKnown = type === LOW_COMPLEXITY || WITH_BANDS.includes(type);
  if (!isKnown || isShort || rateIndex > MAX_RATE_INDEX || channels > 7) {
    throw new Error(
      `The AAC track has object type ${type}, rate index ${rateIndex}, ${channels} channels.`,
    );
  }
  return { rateIndex, channels };
}

/** Consecutive samples, from a position in the file on. */
export type Run = {
  at: number;
  count: number;
  /** Length of each sample, bytes; one number if all are equal: a few bytes may announce any number of those, so they are not listed. */
  sizes: Uint32Array | number;
};

export const sizeAt = ({ sizes }: Run, index: number): number =>
  typeof sizes === 'number' ? sizes : sizes[index]!;

/** Returns the total length of the samples of a run, bytes. */
export const bytesOf = ({ sizes, count }: Run): number =>
  typeof sizes === 'number' ? sizes * count : sizes.reduce((sum, size) => sum + size, 0);

const HAS_BASE = 0x1;
const HAS_DESCRIPTION = 0x2;
const HAS_DURATION = 0x8;
const HAS_SIZE = 0x10;
const RUN_HAS_OFFSET = 0x1;
const RUN_HAS_FIRST_FLAGS = 0x4;
/** Flags of the fields of each sample: duration, size, flags and time. */
const SAMPLE_FIELDS = [0x100, 0x200, 0x400, 0x800];
const SAMPLE_HAS_SIZE = 0x200;
const FIELD_BYTES = 4;

/**
 * Returns the positions of the samples of a track in a fragment.
 * @param startsAt position of the `moof` in the file
 */
export function readFragment(moof: Buffer, startsAt: number, track: AacTrack): Run[] {
  const runs: Run[] = [];
  for (const { type, content } of boxesOf(moof)) {
    const header = type === 'traf' ? childOf(content, ['tfhd']) : undefined;
    if (!header || header.readUInt32BE(4) !== track.id) continue;
    const { base, sampleBytes } = parseHeader(header, startsAt, track);
    let next = base;
    for (const box of boxesOf(content)) {
      if (box.type !== 'trun') continue;
      const run = parseRun(box.content, { base, next, sampleBytes });
      next = run.at + bytesOf(run);
      runs.push(run);
    }
  }
  return runs;
}

function parseHeader(header: Buffer, startsAt: number, track: AacTrack) {
  const flags = header.readUIntBE(1, 3);
  let at = 8;
  const base = flags & HAS_BASE ? Number(header.readBigUInt64BE(at)) : startsAt;
  if (flags & HAS_BASE) at += 8;
  if (flags & HAS_DESCRIPTION) at += 4;
  if (flags & HAS_DURATION) at += 4;
  return { base, sampleBytes: flags & HAS_SIZE ? header.readUInt32BE(at) : track.sampleBytes };
}

function parseRun(
  run: Buffer,
  { base, next, sampleBytes }: { base: number; next: number; sampleBytes: number },
): Run {
  const flags = run.readUIntBE(1, 3);
  const count = run.readUInt32BE(4);
  let at = 8;
  const from = flags & RUN_HAS_OFFSET ? base + run.readInt32BE(at) : next;
  if (flags & RUN_HAS_OFFSET) at += 4;
  if (flags & RUN_HAS_FIRST_FLAGS) at += 4;
  const fields = SAMPLE_FIELDS.filter((field) => (flags & field) !== 0);
  const sizeIndex = fields.indexOf(SAMPLE_HAS_SIZE);
  if (sizeIndex === -1) return { at: from, count, sizes: sampleBytes };
  const entryBytes = FIELD_BYTES * fields.length;
  if (at + count * entryBytes > run.length) throw new Error('A list of samples is cut short.');
  const firstSizeAt = at + FIELD_BYTES * sizeIndex;
  const sizes = new Uint32Array(count);
  for (let i = 0; i < count; i += 1) sizes[i] = run.readUInt32BE(firstSizeAt + i * entryBytes);
  return { at: from, count, sizes };
}
