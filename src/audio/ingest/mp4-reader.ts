import { ADTS_HEAD_BYTES, adtsHead, ADTS_RATES_HZ } from '../frames/adts-frame.ts';
import { ByteCollector } from './byte-collector.ts';
import type { FrameReader, FrameSink } from './frame-reader.ts';
import { type AacTrack, readFragment, readMovie } from './mp4-boxes.ts';

/** The size of a box and its type; a longer size follows where this one is 1. */
const HEAD_BYTES = 8;
const LONG_HEAD_BYTES = 16;
const LONG = 1;
const ENDLESS = 0;
const MAX_MOVIE_BYTES = 1 << 16;
const MAX_FRAGMENT_BYTES = 1 << 18;
/** As much as a head of ADTS can say. */
const MAX_SAMPLE_BYTES = 8191 - ADTS_HEAD_BYTES;
const SAMPLES = 1024;
/** Larger offsets are none. */
const MAX_AT = 2 ** 48;

type State =
  | { name: 'head' }
  | { name: 'movie' }
  | { name: 'fragment'; startsAt: number }
  | { name: 'samples'; endsAt: number }
  | { name: 'skip'; endsAt: number };
type Sample = { at: number; bytes: number };

/** Reads AAC in fragmented MP4, as Safari's MediaRecorder makes it, cut anywhere; each sample comes out as a frame of ADTS. */
export class Mp4Reader implements FrameReader {
  readonly #onFrame: FrameSink;
  readonly #collected = new ByteCollector();
  #state: State = { name: 'head' };
  #neededBytes = HEAD_BYTES;
  /** Bytes of the file so far. */
  #at = 0;
  #track: AacTrack | undefined;
  #samples: Sample[] = [];
  #nextSample = 0;

  constructor(onFrame: FrameSink) {
    this.#onFrame = onFrame;
  }

  get heldBytes(): number {
    return this.#collected.heldBytes;
  }

  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length;) {
      const taken = this.#take(chunk, at);
      at += taken;
      this.#at += taken;
      this.#read();
    }
  }

  /** @returns how many bytes were taken */
  #take(chunk: Buffer, at: number): number {
    const state = this.#state;
    if (state.name === 'skip') return Math.min(chunk.length - at, state.endsAt - this.#at);
    if (state.name === 'samples') {
      const sample = this.#samples[this.#nextSample];
      const isWithin = sample !== undefined && sample.at + sample.bytes <= state.endsAt;
      const from = isWithin ? sample.at : state.endsAt;
      if (this.#at < from) return Math.min(chunk.length - at, from - this.#at);
      this.#neededBytes = sample?.bytes ?? 0;
    }
    return this.#collected.fill(chunk, at, this.#neededBytes);
  }

  #read(): void {
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
    if (!/^[ -~]{4}$/.test(type)) throw new Error('It is no MP4 where a box should begin.');
    const bytes = short === LONG ? Number(head.readBigUInt64BE(HEAD_BYTES)) : short;
    const startsAt = this.#at - head.length;
    const endsAt = short === ENDLESS ? Infinity : startsAt + bytes;
    if (endsAt < this.#at) throw new Error('A box is shorter than its head.');
    this.#enter(type, startsAt, endsAt);
  }

  #enter(type: string, startsAt: number, endsAt: number): void {
    this.#next();
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
    if (!this.#track) throw new Error('Its fragments come before its head.');
    this.#samples = [];
    this.#nextSample = 0;
    for (const run of readFragment(moof, startsAt, this.#track)) {
      let { at } = run;
      for (const bytes of run.sizes) {
        const isPlausible = bytes <= MAX_SAMPLE_BYTES && at >= this.#at && at < MAX_AT;
        if (!isPlausible) throw new Error('A sample is out of place.');
        if (bytes > 0) this.#samples.push({ at, bytes });
        at += bytes;
      }
    }
  }

  /** A sample is whole. */
  #readSample(): void {
    const sample = this.#samples[this.#nextSample];
    if (!sample || this.#collected.length < sample.bytes) return;
    const { rateIndex, channels } = this.#track!;
    const head = adtsHead(rateIndex, channels, sample.bytes);
    const frame = Buffer.concat([head, this.#collected.bytes]);
    this.#collected.clear();
    this.#nextSample += 1;
    this.#onFrame(frame, (SAMPLES * 1000) / ADTS_RATES_HZ[rateIndex]!);
  }
}
