import type { Codecs } from '../codecs.ts';
import type { SampleFormat } from '../format.ts';
import type { Ingest, IngestEvents, OpusTarget, SamplesNext } from './ingest.ts';
import type { LastPackets } from './splice.ts';
import { SampleIngest } from './sample-ingest.ts';
import { CHANGES, StreamBudget, unreadable } from './stream-budget.ts';
import { isWavHead, MAX_UNREAD_BYTES, WavReader } from './wav-reader.ts';

type Piece = { bytes: Buffer; atMs: number; isSkipped: boolean };
/** Format of samples whose ingest is not open yet, and the samples so far. */
type Opening = { format: SampleFormat; held: Piece[] };

/** Ingest of RIFF WAVE: one endless file, or file after file. */
export class WavIngest implements Ingest {
  readonly #codecs: Codecs;
  readonly #target: OpusTarget;
  readonly #events: IngestEvents;
  #before: LastPackets | undefined;
  #reader = this.#openReader();
  /** Format of the present file's samples, as JSON: compared with that of the next file. */
  #inside = '';
  /** Format of the samples, and number of their bytes so far. */
  #next: SamplesNext | undefined;
  /** Ingest of the samples, until the next format is open. */
  #ingest: SampleIngest | undefined;
  /** Formats that follow, oldest first: a message may contain several files, and the next file may begin before an ingest is open. */
  #openings: Opening[] = [];
  #unreadBytes = 0;
  /** Samples of the present message. */
  #pieces: Buffer[] = [];
  readonly #changes: StreamBudget;
  #atMs = 0;
  /** True while a message is read whose samples are not heard. */
  #isSkipped = false;
  #isClosed = false;

  /** @param before last packets of the previous ingest, if this one takes over in the middle of a sound */
  constructor(codecs: Codecs, target: OpusTarget, events: IngestEvents, before?: LastPackets) {
    this.#codecs = codecs;
    this.#target = target;
    this.#events = events;
    this.#before = before;
    this.#changes = new StreamBudget(CHANGES, 'The format changes too often.', target.sound.onOver);
  }

  push(chunk: Buffer, atMs: number): void {
    this.#read(chunk, atMs, false);
  }

  /** Reads the bytes of a skipped message, too, because a file can be read only from its beginning; its samples are not heard. */
  skip(chunk: Buffer, atMs: number): void {
    this.#read(chunk, atMs, true);
  }

  samplesNext(): SamplesNext | undefined {
    return this.#reader.isAtSamples ? this.#next : undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.#openings = [];
    this.#ingest?.close();
    this.#ingest = undefined;
  }

  #read(chunk: Buffer, atMs: number, isSkipped: boolean): void {
    if (this.#isClosed) return;
    this.#atMs = atMs;
    this.#isSkipped = isSkipped;
    this.#unreadBytes += chunk.length;
    try {
      // Some recorders send each chunk as a separate file, and the length in the previous one may
      // be wrong.
      if (isWavHead(chunk)) this.#reader = this.#openReader();
      this.#reader.push(chunk);
      this.#flush();
      if (this.#reader.isBehindSamples) this.#unreadBytes = 0;
      if (this.#unreadBytes > MAX_UNREAD_BYTES)
        throw new Error(`There are no samples in ${MAX_UNREAD_BYTES} bytes.`);
    } catch (fault) {
      this.#fail(fault);
    }
  }

  #openReader(): WavReader {
    return new WavReader({
      onFormat: (format) => this.#enter(format),
      onSamples: (bytes) => this.#take(bytes),
    });
  }

  /** Handles the beginning of a file; most files continue in the format of the previous one. */
  #enter(format: SampleFormat): void {
    this.#flush();
    this.#next = { format, startsAtBytes: 0 };
    const inside = JSON.stringify(format);
    if (inside === this.#inside) {
      if (this.#openings.length === 0) this.#ingest?.realign();
      return;
    }
    this.#changes.spend(this.#atMs);
    this.#inside = inside;
    this.#openings.push({ format, held: [] });
    if (this.#openings.length === 1) {
      this.#openAll().catch((fault: unknown) => this.#fail(fault));
    }
    this.#events.onInside(format);
  }

  /** Opens one format after another, and hands on what was held of each. */
  async #openAll(): Promise<void> {
    for (let next = this.#openings[0]; next; next = this.#openings[0]) {
      const before = this.#before;
      this.#before = undefined;
      const ingest = await SampleIngest.open(next.format, this.#codecs, this.#target, before);
      if (this.#isClosed) {
        ingest.close();
        return;
      }
      this.#ingest?.close();
      this.#ingest = ingest;
      this.#openings.shift();
      for (const piece of next.held) handOn(ingest, piece);
    }
  }

  /** Collects the samples of one message, which may contain thousands of `data` chunks. */
  #take(bytes: Buffer): void {
    this.#unreadBytes = 0;
    if (this.#next) this.#next.startsAtBytes += bytes.length;
    this.#pieces.push(bytes);
  }

  #flush(): void {
    if (this.#pieces.length === 0) return;
    const [first] = this.#pieces;
    const bytes = first && this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces);
    this.#pieces = [];
    const piece = { bytes, atMs: this.#atMs, isSkipped: this.#isSkipped };
    const opening = this.#openings.at(-1);
    if (opening) opening.held.push(piece);
    else if (this.#ingest) handOn(this.#ingest, piece);
  }

  #fail(fault: unknown): void {
    if (this.#isClosed) return;
    this.close();
    this.#events.onFault(unreadable('wav', fault));
  }
}

function handOn(ingest: SampleIngest, { bytes, atMs, isSkipped }: Piece): void {
  if (isSkipped) ingest.skip(bytes);
  else ingest.push(bytes, atMs);
}
