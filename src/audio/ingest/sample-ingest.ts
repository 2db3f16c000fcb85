import type { Codecs } from '../codecs.ts';
import type { SampleFormat } from '../format.ts';
import type { Ingest, OpusTarget } from './ingest.ts';
import type { LastPackets } from './splice.ts';
import { frameBytesOf, openSampleReader, type SampleReader } from '../samples.ts';
import { Downmixer } from './downmixer.ts';
import { SampleEncoder } from './sample-encoder.ts';
import type { SoundBudget } from './sound-budget.ts';

/** Ingest of samples, in messages of any length, also if a message ends within a sample. */
export class SampleIngest implements Ingest {
  readonly #format: SampleFormat;
  readonly #read: SampleReader;
  readonly #downmixer: Downmixer;
  readonly #encoder: SampleEncoder;
  readonly #sound: SoundBudget;
  /** First bytes of a sample that the last message cut. */
  #rest: Buffer = Buffer.alloc(0);

  /** @param before last packets that were handed on before this ingest takes over, in the middle of a sound */
  static async open(
    format: SampleFormat,
    codecs: Codecs,
    target: OpusTarget,
    before?: LastPackets,
  ): Promise<SampleIngest> {
    const encoder = await SampleEncoder.open(format.rateHz, codecs, target, before);
    return new SampleIngest(format, encoder, target.sound);
  }

  private constructor(format: SampleFormat, encoder: SampleEncoder, sound: SoundBudget) {
    this.#format = format;
    this.#read = openSampleReader(format.codec);
    this.#downmixer = new Downmixer(format.channels);
    this.#encoder = encoder;
    this.#sound = sound;
  }

  push(message: Buffer, atMs: number): void {
    const bytes = this.#takeWhole(message);
    if (bytes.length === 0) return;
    const admitted = bytes.subarray(0, this.#admit(bytes.length, atMs));
    if (admitted.length > 0) {
      this.#encoder.push(this.#downmixer.process(this.#read(admitted)), atMs);
    }
    if (admitted.length < bytes.length) this.#encoder.skip();
  }

  /** Skips a message, which may end in the middle of a sample. */
  skip(message: Buffer): void {
    this.#takeWhole(message);
    this.#encoder.skip();
  }

  /** Drops an incomplete sample: the next message begins with a whole one. */
  realign(): void {
    this.#rest = Buffer.alloc(0);
  }

  close(): void {
    this.#encoder.close();
  }

  /** Charges whole samples before they are encoded. @returns number of the bytes within the budget */
  #admit(bytes: number, atMs: number): number {
    const frameBytes = frameBytesOf(this.#format);
    const { rateHz } = this.#format;
    const seconds = bytes / frameBytes / rateHz;
    const admittedS = this.#sound.admitPart(seconds, atMs);
    return admittedS < seconds ? Math.round(admittedS * rateHz) * frameBytes : bytes;
  }

  /** Returns the bytes of whole samples, including the rest of the last message; keeps the new rest. */
  #takeWhole(message: Buffer): Buffer {
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, message]) : message;
    const wholeBytes = bytes.length - (bytes.length % frameBytesOf(this.#format));
    this.#rest = Buffer.from(bytes.subarray(wholeBytes));
    return bytes.subarray(0, wholeBytes);
  }
}
