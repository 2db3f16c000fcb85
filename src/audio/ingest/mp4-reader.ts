import { ADTS_HEAD_BYTES, adtsHead, ADTS_RATES_HZ } from '../frames/adts-frame.ts';
import { ByteCollector } from './byte-collector.ts';
import type { FrameReader, FrameSink } from './frame-reader.ts';
import { type AacTrack, bytesOf, readFragment, readMovie, type Run, sizeAt } from './mp4-boxes.ts';

/** Head of a box: size and type; a longer size follows if the size is 1. */
const HEAD_BYTES = 8;
const LONG_HEAD_BYTES = 16;
const LONG = 1;
const ENDLESS = 0;
const MAX_MOVIE_BYTES = 1 << 16;
const MAX_FRAGMENT_BYTES = 1 << 18;
/** Maximum length of a sample that an ADTS header can represent. */
const MAX_SAMPLE_BYTES = 8191 - ADTS_HEAD_BYTES;
const SAMPLES = 1024;
/** Maximum offset that is accepted. */
const MAX_AT = 2 ** 48;

type State =
  | { name: 'head' }
  | { name: 'movie' }
  | { name: 'fragment'; startsAt: number }
  | { name: 'samples'; endsAt: number }
  | { name: 'skip'; endsAt: number };
type Sample = { at: number; bytes: number };

/** Reads AAC in fragmented MP4, as Safari's MediaRecorder produces it, cut anywhere; hands on each sample as an ADTS frame. */
export class Mp4Reader implements FrameReader {
  readonly #onFrame: FrameSink;
  readonly #collected = new ByteCollector();
  #state: State = { name: 'head' };
  #neededBytes = HEAD_BYTES;
  /** Number of bytes of the file so far. */
  #at = 0;
  #track: AacTrack | undefined;
  #runs: Run[] = [];
  #samples: Iterator<Sample, undefined> = samplesOf([]);
  /** Next sample of the fragment. */
  #sample: Sample | undefined;
  #units = 0;

  constructor(onFrame: FrameSink) {
    this.#onFrame = onFrame;
  }

  get work(): number {
    return this.#collected.copiedBytes + this.#units;
  }

  get heldBytes(): number {
    const listed = this.#runs.map(({ sizes }) =>
      typeof sizes === 'number' ? 0 : sizes.byteLength,
    );
    return listed.reduce((sum, bytes) => sum + bytes, this.#collected.heldBytes);
  }

  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length;) {
      const taken = this.#take(chunk, at);
      at += taken;
      this.#at += taken;
      this.#read();
    }
  }

  /** @returns number of bytes that were taken */
  #take(chunk: Buffer, at: number): number {
    const state = this.#state;
    if (state.name === 'skip') return Math.min(chunk.length - at, state.endsAt - this.#at);
    if (state.name === 'samples') {
      const sample = this.#sample;
      const isWithin = sample !== undefined && sample.at + sample.bytes <= state.endsAt;
      const from = isWithin ? sample.at : state.endsAt;
      if (this.#at < from) return Math.min(chunk.length - at, from - this.#at);
      this.#neededBytes = sample?.bytes ?? 0;
    }
    return this.#collected.fill(chunk, at, this.#neededBytes);
  }

  #read(): void {
    this.#units += 1;
    const state = this.#state;
    const isWhole = this.#collected.length === this.#neededBytes;
    if (state.name === 'head') {
      if (isWhole) this.#readHead(this.#collected.bytes);
    } else if (state.name === 'movie') {
      if (!isWhole) return;
      this.#track = readMovie(this.#collected.bytes);
      this.#next();
    } else if (state.name === 'fragment') {
      if (!isWhole) return;
      this.#readFragment(this.#collected.bytes, state.startsAt);
      this.#next();
    } else {
      if (state.name === 'samples') this.#readSample();
      if (this.#at >= state.endsAt) this.#next();
    }
  }

  #next(): void {
    this.#collected.clear();
    this.#state = { name: 'head' };
    this.#neededBytes = HEAD_BYTES;
  }

  #readHead(head: Buffer): void {
    const short = head.readUInt32BE(0);
    if (short === LONG && head.length === HEAD_BYTES) {
      this.#neededBytes = LONG_HEAD_BYTES;
      return;
    }
    const type = head.toString('latin1', 4, HEAD_BYTES);
    if (!/^[ -~]{4}$/.test(type))
      throw new Error('Not MP4: there is no box where one should begin.');
    const bytes = short === LONG ? Number(head.readBigUInt64BE(HEAD_BYTES)) : short;
    const startsAt = this.#at - head.length;
    const endsAt = short === ENDLESS ? Infinity : startsAt + bytes;
    if (endsAt < this.#at) throw new Error('A box is shorter than its head.');
    this.#enter(type, startsAt, endsAt);
  }

  #enter(type: string, startsAt: number, endsAt: number): void {
    this.#next();
    if (type === 'ftyp') {
      // Another file: positions count from its beginning, and samples of the previous one are over.
      this.#at -= startsAt;
      endsAt -= startsAt;
      this.#samples = samplesOf([]);
      this.#sample = undefined;
    }
    if (endsAt === this.#at) return;
    const bytes = endsAt - this.#at;
    if (type === 'moov' || type === 'moof') {
      const most = type === 'moov' ? MAX_MOVIE_BYTES : MAX_FRAGMENT_BYTES;
      if (bytes > most) throw new Error('A box is too long.');
      this.#state = type === 'moov' ? { name: 'movie' } : { name: 'fragment', startsAt };
      this.#neededBytes = bytes;
    } else {
      this.#state = { name: type === 'mdat' ? 'samples' : 'skip', endsAt };
    }
  }

  #readFragment(moof: Buffer, startsAt: number): void {
    if (!this.#track) throw new Error('A fragment comes before the header.');
    this.#runs = readFragment(moof, startsAt, this.#track);
    for (const run of this.#runs) {
      const { at, count, sizes } = run;
      if (count === 0) continue;
      const longest = typeof sizes === 'number' ? sizes : sizes.reduce((a, b) => Math.max(a, b));
      const isPlausible = at >= this.#at && at + bytesOf(run) < MAX_AT;
      if (!isPlausible || longest > MAX_SAMPLE_BYTES) throw new Error('A sample is out of place.');
    }
    this.#samples = samplesOf(this.#runs);
    this.#sample = this.#samples.next().value;
  }

  /** Handles a complete sample. */
  #readSample(): void {
    const sample = this.#sample;
    if (!sample || this.#collected.length < sample.bytes) return;
    const { rateIndex, channels } = this.#track!;
    const head = adtsHead(rateIndex, channels, sample.bytes);
    const frame = Buffer.concat([head, this.#collected.bytes]);
    this.#collected.clear();
    this.#sample = this.#samples.next().value;
    const rateHz = ADTS_RATES_HZ[rateIndex]!;
    this.#onFrame(frame, (SAMPLES * 1000) / rateHz, rateHz);
  }
}

/** Yields the samples that have bytes, one at a time: a run may announce more samples of equal size than memory could hold. */
function* samplesOf(runs: Run[]): Generator<Sample, undefined> {
  for (const run of runs) {
    let { at } = run;
    for (let i = 0; sizesLeft(run, i); i += 1) {
      const bytes = sizeAt(run, i);
      if (bytes > 0) yield { at, bytes };
      at += bytes;
    }
  }
}

/** True if a run has a sample at an index, and the sample may have bytes. */
const sizesLeft = ({ count, sizes }: Run, index: number): boolean => index < count && sizes !== 0;
