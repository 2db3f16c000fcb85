import { ADTS_FRAMES } from './frames/adts-frame.ts';
import { parseFlacHeader } from './frames/flac-frame.ts';
import type { FrameFormat } from './frames/frame-header.ts';
import { MPEG_FRAMES } from './frames/mpeg-frame.ts';

/**
 * Verdict on whether bytes begin a stream of a format, or are part of one; `more`: more bytes are needed.
 */
export type Sniff = 'yes' | 'no' | 'more';

/** Number of consecutive frames that identify a format: other bytes contain as many by chance once in 2^50 places. */
const CHAINED_FRAMES = 3;
/** Maximum number of bytes that are examined. */
export const MAX_SNIFFED_BYTES = 8192;

const RIFF = [0, ['RIFF', 'RF64']] as const;

/** Judges whether `bytes` have one of `values` at a position. */
function sniffAt(bytes: Buffer, [at, values]: readonly [number, readonly string[]]): Sniff {
  const sniffs = values.map((value) => {
    const there = bytes.toString('latin1', at, at + value.length);
    return there === value ? 'yes' : value.startsWith(there) ? 'more' : 'no';
  });
  return sniffs.find((sniff) => sniff !== 'no') ?? 'no';
}

/** Combines two verdicts that must both be `yes`. */
const both = (first: Sniff, second: Sniff): Sniff =>
  first === 'no' || second === 'no' ? 'no' : first === 'yes' ? second : first;

/** Judges whether frames follow each other, from the first byte on or from a later one: a client may return in mid-stream. */
function sniffChain(bytes: Buffer, format: FrameFormat): Sniff {
  const atStart = followChain(bytes, 0, format);
  if (atStart !== 'no') return atStart;
  for (let at = bytes.indexOf(0xff, 1); at !== -1; at = bytes.indexOf(0xff, at + 1)) {
    if (followChain(bytes, at, format) === 'yes') return 'yes';
  }
  return 'no';
}

function followChain(bytes: Buffer, from: number, { headerBytes, parse }: FrameFormat): Sniff {
  let streamKey: number | undefined;
  let at = from;
  for (let frames = 0; frames < CHAINED_FRAMES; frames += 1) {
    if (at + headerBytes > bytes.length)
      return at >= bytes.length || bytes[at] === 0xff ? 'more' : 'no';
    const header = parse(bytes, at);
    if (!header || header.streamKey !== (streamKey ?? header.streamKey)) return 'no';
    streamKey = header.streamKey;
    at += header.bytes;
  }
  return 'yes';
}

/**
 * Returns true if bytes may continue a stream of AAC or MP3: a header follows the first byte, and no later byte contradicts it yet. Fewer than three
 * frames may have come: three are a beginning. True for one in five random inputs, until a frame's length of bytes after the header has come.
 */
export function mayContinueFrames(bytes: Buffer): boolean {
  for (let at = bytes.indexOf(0xff, 1); at !== -1; at = bytes.indexOf(0xff, at + 1)) {
    const isUnrefuted = (format: FrameFormat) =>
      at + format.headerBytes <= bytes.length && followChain(bytes, at, format) === 'more';
    if (isUnrefuted(ADTS_FRAMES) || isUnrefuted(MPEG_FRAMES)) return true;
  }
  return false;
}

/** Judges whether bytes begin with an ID3 tag (ID3v2 §3.1). */
const sniffTag = (bytes: Buffer): Sniff =>
  both(sniffAt(bytes, [0, ['ID3']]), bytes.length < 10 ? 'more' : isTagHead(bytes) ? 'yes' : 'no');
const isTagHead = (bytes: Buffer) =>
  bytes[3]! < 0xff && bytes[4]! < 0xff && bytes.subarray(6, 10).every((byte) => byte < 0x80);

function sniffFlac(bytes: Buffer): Sniff {
  const atStart = sniffAt(bytes, [0, ['fLaC']]);
  if (atStart !== 'no') return atStart;
  const heads: number[] = [];
  for (let at = bytes.indexOf(0xff); at !== -1; at = bytes.indexOf(0xff, at + 1)) {
    if (parseFlacHeader(bytes, at)) heads.push(at);
  }
  // A header occurs by chance once in 2^27 bytes.
  return heads.length >= 2 ? 'yes' : heads[0] === 0 ? 'more' : 'no';
}

const PAGE_HEAD_BYTES = 27;

/** Judges whether one of the pages that begin logical streams (RFC 3533 §6) has a packet that begins with `magic`. */
function sniffOgg(bytes: Buffer, magic: string): Sniff {
  for (let at = 0; ;) {
    const isPage = sniffAt(bytes, [at, ['OggS\0']]);
    const bodyAt = at + PAGE_HEAD_BYTES + (bytes[at + PAGE_HEAD_BYTES - 1] ?? 0);
    if (isPage !== 'yes' || bytes.length < bodyAt) return isPage === 'no' ? 'no' : 'more';
    const isFirst = (bytes[at + 5]! & 2) !== 0;
    const answer = isFirst ? sniffAt(bytes, [bodyAt, [magic]]) : 'no';
    if (!isFirst || answer !== 'no') return answer;
    const lengths = bytes.subarray(at + PAGE_HEAD_BYTES, bodyAt);
    at = lengths.reduce((end, length) => end + length, bodyAt);
  }
}

/** Test of the structure of each format. */
const SNIFFERS = {
  ogg_opus: (bytes) => sniffOgg(bytes, 'OpusHead'),
  ogg_flac: (bytes) => sniffOgg(bytes, '\x7fFLAC'),
  ogg_vorbis: (bytes) => sniffOgg(bytes, '\x01vorbis'),
  webm_opus: (bytes) => sniffAt(bytes, [0, ['\x1a\x45\xdf\xa3']]),
  wav: (bytes) => both(sniffAt(bytes, RIFF), sniffAt(bytes, [8, ['WAVE']])),
  mp4_aac: (bytes) => both(sniffAt(bytes, [0, ['\0\0']]), sniffAt(bytes, [4, ['ftyp', 'styp']])),
  flac: sniffFlac,
  aac_adts: (bytes) => sniffChain(bytes, ADTS_FRAMES),
  mp3: (bytes) => {
    const tag = sniffTag(bytes);
    return tag === 'no' ? sniffChain(bytes, MPEG_FRAMES) : tag;
  },
} satisfies Record<string, (bytes: Buffer) => Sniff>;

export type RecognisedFormat = keyof typeof SNIFFERS;

/** Judges whether bytes are of one format. */
export const sniff = (codec: RecognisedFormat, bytes: Buffer): Sniff =>
  SNIFFERS[codec](bytes.subarray(0, MAX_SNIFFED_BYTES));

/** First block of metadata, STREAMINFO, of 34 bytes, which may be the last one (RFC 9639 §8.2). */
const FLAC_HEADS = ['fLaC\0\0\0\x22', 'fLaC\x80\0\0\x22'];

/** Document type in the EBML header of WebM or Matroska (RFC 9559 §4.1), which is shorter than 64 bytes. */
const DOCUMENT_TYPE = /webm|matroska/;
const EBML_HEADER_BYTES = 64;

/**
 * Returns the format of the WAVE, MP4, FLAC, WebM, AAC or MP3 file that begins at the first byte; undefined if none does. Other or encrypted bytes
 * look like a beginning in one of 2^48 messages at most.
 */
export function formatOfBeginning(bytes: Buffer): RecognisedFormat | undefined {
  if (sniff('wav', bytes) === 'yes') return 'wav';
  const isDocument = DOCUMENT_TYPE.test(bytes.toString('latin1', 0, EBML_HEADER_BYTES));
  if (isDocument && sniff('webm_opus', bytes) === 'yes') return 'webm_opus';
  if (bytes.toString('latin1', 4, 8) === 'ftyp' && bytes.readUInt16BE(0) === 0) return 'mp4_aac';
  if (FLAC_HEADS.includes(bytes.toString('latin1', 0, 8))) return 'flac';
  if (followChain(bytes, 0, ADTS_FRAMES) === 'yes') return 'aac_adts';
  return followChain(bytes, 0, MPEG_FRAMES) === 'yes' ? 'mp3' : undefined;
}

/**
 * Returns the format whose container or consecutive frames the bytes have.
 * @param start first bytes of a stream, as far as they have arrived
 * @returns `more` while a format is still possible; undefined if none is
 */
export function recognise(start: Buffer): RecognisedFormat | 'more' | undefined {
  let mayBe = false;
  for (const codec of Object.keys(SNIFFERS) as RecognisedFormat[]) {
    const answer = sniff(codec, start);
    if (answer === 'yes') return codec;
    mayBe ||= answer === 'more';
  }
  return mayBe ? 'more' : undefined;
}
