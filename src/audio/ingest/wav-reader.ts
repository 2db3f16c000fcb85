import type { SampleCodec, SampleFormat } from '../format.ts';
import { ByteCollector } from './byte-collector.ts';

/** Head of a file: `RIFF` (or `RF64`), a length, `WAVE`. Chunks follow: an ID, a length, that number of bytes, and one more if it is odd. */
const FILE_HEAD_BYTES = 12;
const CHUNK_HEAD_BYTES = 8;
const LENGTH_AT = 4;
const FORM_AT = 8;
const FILE_IDS = ['RIFF', 'RF64'];
const CHUNK_ID = /^[ -~]{4}$/;
/** IDs of what follows samples of odd length, by which it is known that a writer has left out the byte behind them. */
const IDS_BEHIND_SAMPLES = [...FILE_IDS, 'LIST', 'data', 'fact', 'cue ', 'bext', 'id3 ', 'ID3 '];
/** Number of bytes before a sample after which a stream is refused, and maximum length of a chunk behind samples in a file of unknown length. */
export const MAX_UNREAD_BYTES = 1 << 18;
/** Lengths of a `fmt ` chunk: 16, 18 or 40 bytes; further bytes are ignored. */
const LEAST_FORMAT_BYTES = 16;
const MAX_FORMAT_BYTES = 256;
const EXTENDED_FORMAT_BYTES = 26;
/** Position of the format tag in the extended form. */
const SUBFORMAT_AT = 24;
const EXTENDED = 0xfffe;
/** Length from which samples count as endless: writers that do not know the length write 0, or about the maximum. */
const ENDLESS_BYTES = 0x7fff_0000;

const INTEGERS = ['pcm_u8', 'pcm_s16le', 'pcm_s24le', 'pcm_s32le'] as const;
const MAX_CHANNELS = 8;
const MIN_RATE_HZ = 4000;
const MAX_RATE_HZ = 192_000;

type State =
  | { name: 'file head' }
  | { name: 'chunk head'; mayBePadded?: boolean }
  | { name: 'format'; leftBytes: number }
  | { name: 'skip'; leftBytes: number }
  | { name: 'samples'; leftBytes: number; isPadded: boolean };

type WavEvents = {
  /** Called with the format of the samples that follow. */
  onFormat: (format: SampleFormat) => void;
  /** Called with bytes of samples; a piece may begin or end within a sample. */
  onSamples: (bytes: Buffer) => void;
};

/** True for bytes that begin a file. */
export const isWavHead = (bytes: Buffer): boolean =>
  FILE_IDS.includes(bytes.toString('latin1', 0, 4)) &&
  bytes.toString('latin1', FORM_AT, FILE_HEAD_BYTES) === 'WAVE';

/** True for bytes that may begin a chunk, or a file. */
export const mayBeChunk = (bytes: Buffer): boolean => CHUNK_ID.test(bytes.toString('latin1', 0, 4));

/** Reads RIFF WAVE files, one after another, cut anywhere; holds no more than a head. */
export class WavReader {
  readonly #events: WavEvents;
  readonly #collected = new ByteCollector();
  #state: State = { name: 'file head' };
  #neededBytes = FILE_HEAD_BYTES;
  #hasFormat = false;
  /** True behind the first samples of a file. */
  #hasSamples = false;
  /** Number of bytes of the file that follow the last chunk; 0 if its length is not known. */
  #fileLeftBytes = 0;

  constructor(events: WavEvents) {
    this.#events = events;
  }

  /** Length of the memory that is held, bytes. */
  get heldBytes(): number {
    return this.#collected.heldBytes;
  }

  /** True within a chunk behind the samples of a file, which is skipped: tags, and pictures in them. */
  get isBehindSamples(): boolean {
    return this.#state.name === 'skip' && this.#hasSamples;
  }

  /** True if the next byte is one of a sample, or follows the samples, where most writers continue with more of them. */
  get isAtSamples(): boolean {
    const state = this.#state;
    const isBehind =
      state.name === 'chunk head' && !state.mayBePadded && this.#collected.length === 0;
    return this.#hasFormat && (state.name === 'samples' || isBehind);
  }

  /**
   * Reads bytes, cut anywhere; hands on those of samples.
   * @throws {Error} if the bytes are not a WAVE file, or contain something other than samples
   */
  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length;) {
      const state = this.#state;
      if (state.name === 'samples' || state.name === 'skip') {
        const part = chunk.subarray(at, at + state.leftBytes);
        at += part.length;
        state.leftBytes -= part.length;
        if (state.name === 'samples') this.#events.onSamples(part);
        if (state.leftBytes === 0) this.#end(state);
        continue;
      }
      at += this.#collected.fill(chunk, at, this.#neededBytes);
      if (this.#collected.length === this.#neededBytes) this.#read(state);
    }
  }

  #end(state: State): void {
    const mayBePadded = state.name === 'samples' && state.isPadded;
    this.#expect({ name: 'chunk head', mayBePadded }, CHUNK_HEAD_BYTES);
  }

  #expect(state: State, neededBytes: number): void {
    this.#collected.clear();
    this.#state = state;
    this.#neededBytes = neededBytes;
  }

  /** Reads the collected bytes, whose number is that which the state needs. */
  #read(state: State): void {
    const bytes = this.#collected.bytes;
    if (state.name === 'file head') {
      if (!isWavHead(bytes)) throw new Error('Not a WAVE file.');
      const lengthBytes = bytes.readUInt32LE(LENGTH_AT);
      this.#fileLeftBytes = lengthBytes >= ENDLESS_BYTES ? 0 : lengthBytes - CHUNK_HEAD_BYTES / 2;
      this.#expect({ name: 'chunk head' }, CHUNK_HEAD_BYTES);
    } else if (state.name === 'chunk head') {
      const id = bytes.toString('latin1', 0, 4);
      if (state.mayBePadded && !IDS_BEHIND_SAMPLES.includes(id)) this.#skipPadding(bytes);
      else this.#enter(id, bytes.readUInt32LE(4));
    } else if (state.name === 'format') {
      const { leftBytes } = state;
      this.#events.onFormat(parseFormat(bytes));
      this.#hasFormat = true;
      this.#pass(leftBytes);
    }
  }

  /** Skips the first of the collected bytes, those of a head. */
  #skipPadding(bytes: Buffer): void {
    const rest = Buffer.from(bytes.subarray(1));
    this.#expect({ name: 'chunk head' }, CHUNK_HEAD_BYTES);
    this.#collected.fill(rest, 0, rest.length);
  }

  #enter(id: string, lengthBytes: number): void {
    const chunkBytes = CHUNK_HEAD_BYTES + lengthBytes;
    const isInFile = chunkBytes <= this.#fileLeftBytes;
    this.#fileLeftBytes = Math.max(0, this.#fileLeftBytes - chunkBytes - (lengthBytes % 2));
    if (FILE_IDS.includes(id)) {
      // Another file: its head is four bytes longer than that of a chunk.
      this.#state = { name: 'file head' };
      this.#neededBytes = FILE_HEAD_BYTES;
      this.#hasSamples = false;
    } else if (id === 'fmt ') {
      if (lengthBytes < LEAST_FORMAT_BYTES) throw new Error('The format chunk is too short.');
      const readBytes = Math.min(lengthBytes, MAX_FORMAT_BYTES);
      const leftBytes = lengthBytes + (lengthBytes % 2) - readBytes;
      this.#expect({ name: 'format', leftBytes }, readBytes);
    } else if (id === 'data') {
      if (!this.#hasFormat) throw new Error('The data chunk comes before the format chunk.');
      this.#hasSamples = true;
      const isEndless = lengthBytes === 0 || lengthBytes >= ENDLESS_BYTES;
      const leftBytes = isEndless ? Infinity : lengthBytes;
      this.#expect({ name: 'samples', leftBytes, isPadded: lengthBytes % 2 === 1 }, 0);
    } else if (
      CHUNK_ID.test(id) &&
      (!this.#hasSamples || isInFile || lengthBytes <= MAX_UNREAD_BYTES)
    ) {
      this.#pass(lengthBytes + (lengthBytes % 2));
    } else {
      // The samples continue beyond the length that their writer stated in advance; those of one
      // byte may look like an ID.
      if (!this.#hasFormat)
        throw new Error('Not a WAVE file: there is no chunk where one should begin.');
      const bytes = Buffer.from(this.#collected.bytes);
      this.#expect({ name: 'samples', leftBytes: Infinity, isPadded: false }, 0);
      this.#events.onSamples(bytes);
    }
  }

  #pass(bytes: number): void {
    if (bytes > 0) this.#expect({ name: 'skip', leftBytes: bytes }, 0);
    else this.#expect({ name: 'chunk head' }, CHUNK_HEAD_BYTES);
  }
}

/** @throws {Error} if the format cannot be read */
function parseFormat(bytes: Buffer): SampleFormat {
  const tag = bytes.readUInt16LE(0);
  const isExtended = tag === EXTENDED && bytes.length >= EXTENDED_FORMAT_BYTES;
  const channels = bytes.readUInt16LE(2);
  const rateHz = bytes.readUInt32LE(4);
  const frameBytes = bytes.readUInt16LE(12);
  const codec = codecOf(isExtended ? bytes.readUInt16LE(SUBFORMAT_AT) : tag, frameBytes / channels);
  const isSane =
    channels >= 1 && channels <= MAX_CHANNELS && rateHz >= MIN_RATE_HZ && rateHz <= MAX_RATE_HZ;
  if (!codec || !isSane) {
    throw new Error(
      `The file has format ${tag}, ${channels} channels, ${frameBytes} bytes, ${rateHz} Hz.`,
    );
  }
  return { codec, rateHz, channels };
}

function codecOf(tag: number, sampleBytes: number): SampleCodec | undefined {
  switch (tag) {
    case 1:
      return INTEGERS[sampleBytes - 1];
    case 3:
      return sampleBytes === 4 ? 'pcm_f32le' : sampleBytes === 8 ? 'pcm_f64le' : undefined;
    case 6:
      return sampleBytes === 1 ? 'pcma' : undefined;
    case 7:
      return sampleBytes === 1 ? 'pcmu' : undefined;
    default:
      return undefined;
  }
}
