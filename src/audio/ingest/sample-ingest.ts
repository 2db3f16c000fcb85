import type { Codecs } from '../codecs.ts';
import { FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ, type SampleFormat } from '../format.ts';
import type { Ingest, OpusSink, Tail } from './ingest.ts';
import { levelDbov } from '../level.ts';
import { OPUS_RATES_HZ, type OpusEncoder } from '../opus-codec.ts';
import type { Resampler } from '../resampler.ts';
import { downmix, frameBytesOf, readSamples } from '../samples.ts';

/** Samples in: cut into frames of 20 ms, whatever the lengths of the messages, and encoded at a rate that Opus takes. */
export class SampleIngest implements Ingest {
  readonly #format: SampleFormat;
  readonly #encoder: OpusEncoder;
  readonly #resampler: Resampler | undefined;
  readonly #sink: OpusSink;
  /** The bytes of a sample that the last message cut in two. */
  #rest: Buffer = Buffer.alloc(0);
  readonly #rateHz: number;
  readonly #frame: Float32Array;
  #filledSamples = 0;
  /** The frame that was encoded last. */
  readonly #last: Float32Array;

  /** @param before taken up if it needs no resampling */
  static async open(
    format: SampleFormat,
    codecs: Codecs,
    sink: OpusSink,
    before?: Tail,
  ): Promise<SampleIngest> {
    const rateHz = OPUS_RATES_HZ.find((rate) => rate >= format.rateHz) ?? SAMPLE_RATE_HZ;
    const resampler =
      rateHz === format.rateHz ? undefined : codecs.openResampler(format.rateHz, rateHz);
    try {
      const encoder = await codecs.opus.createEncoder(rateHz);
      const ingest = new SampleIngest(format, rateHz, { encoder, resampler }, sink);
      if (before?.rateHz === rateHz && !resampler) ingest.#joinOn(before.samples);
      return ingest;
    } catch (fault) {
      resampler?.close();
      throw fault;
    }
  }

  private constructor(
    format: SampleFormat,
    rateHz: number,
    codecs: { encoder: OpusEncoder; resampler: Resampler | undefined },
    sink: OpusSink,
  ) {
    this.#format = format;
    this.#rateHz = rateHz;
    this.#frame = new Float32Array((rateHz * FRAME_MS) / 1000);
    this.#last = new Float32Array(this.#frame.length);
    this.#encoder = codecs.encoder;
    this.#resampler = codecs.resampler;
    this.#sink = sink;
  }

  push(message: Buffer, atMs: number): void {
    const { codec, channels } = this.#format;
    const bytes = this.#takeWhole(message);
    if (bytes.length === 0) return;
    const samples = downmix(readSamples(bytes, codec), channels);
    this.#encode(this.#resampler ? this.#resampler.process(samples) : samples, atMs);
  }

  /** A message may end in the middle of a sample. */
  skip(message: Buffer): void {
    this.#takeWhole(message);
    this.#filledSamples = 0;
  }

  /** What a resampler keeps back is not known. */
  get tail(): Tail | undefined {
    if (this.#resampler) return undefined;
    const said = this.#frame.subarray(0, this.#filledSamples);
    return { samples: Float32Array.from([...this.#last, ...said]), rateHz: this.#rateHz };
  }

  close(): void {
    this.#encoder.close();
    this.#resampler?.close();
  }

  #joinOn(before: Float32Array): void {
    const heard = before.subarray(0, this.#frame.length);
    const said = before.subarray(heard.length);
    this.#encoder.prime(heard);
    this.#last.set(heard);
    this.#frame.set(said);
    this.#filledSamples = said.length;
  }

  /** The bytes of whole samples, with what the last message left; the rest is kept. */
  #takeWhole(message: Buffer): Buffer {
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, message]) : message;
    const wholeBytes = bytes.length - (bytes.length % frameBytesOf(this.#format));
    this.#rest = Buffer.from(bytes.subarray(wholeBytes));
    return bytes.subarray(0, wholeBytes);
  }

  #encode(samples: Float32Array, atMs: number): void {
    for (let at = 0; at < samples.length;) {
      const part = samples.subarray(at, at + this.#frame.length - this.#filledSamples);
      this.#frame.set(part, this.#filledSamples);
      this.#filledSamples += part.length;
      at += part.length;
      if (this.#filledSamples < this.#frame.length) return;
      this.#filledSamples = 0;
      this.#last.set(this.#frame);
      this.#sink(this.#encoder.encode(this.#frame), FRAME_SAMPLES, levelDbov(this.#frame), atMs);
    }
  }
}
