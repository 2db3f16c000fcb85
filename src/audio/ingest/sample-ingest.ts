import type { Codecs } from '../codecs.ts';
import { FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ, type SampleFormat } from '../format.ts';
import type { Ingest, OpusSink } from './ingest.ts';
import { bestPlace, type Joint, jointAfter, type LastPackets } from './joint.ts';
import { audioLevelOf } from '../level.ts';
import { crossFade } from '../ramps.ts';
import { OPUS_RATES_HZ, type OpusEncoder } from '../opus-codec.ts';
import type { Resampler } from '../resampler.ts';
import { downmix, frameBytesOf, openSampleReader, type SampleReader } from '../samples.ts';

/** Who says nothing for longer has paused: what he says then does not go on from anything. */
const MAX_JOINT_MS = 100;
const NOTHING = new Float32Array(0);

/** Samples in: cut into frames of 20 ms, whatever the lengths of the messages, and encoded at a rate that Opus takes. */
export class SampleIngest implements Ingest {
  readonly #format: SampleFormat;
  readonly #read: SampleReader;
  readonly #encoder: OpusEncoder;
  readonly #resampler: Resampler | undefined;
  readonly #sink: OpusSink;
  /** The bytes of a sample that the last message cut in two. */
  #rest: Buffer = Buffer.alloc(0);
  readonly #frame: Float32Array;
  #filledSamples = 0;
  /** Until the first frame. */
  #joint: Joint | undefined;

  /** @param before what was handed on before this ingest took over, in the middle of a sound */
  static async open(
    format: SampleFormat,
    codecs: Codecs,
    sink: OpusSink,
    before?: LastPackets,
  ): Promise<SampleIngest> {
    const rateHz = OPUS_RATES_HZ.find((rate) => rate >= format.rateHz) ?? SAMPLE_RATE_HZ;
    const resampler =
      rateHz === format.rateHz ? undefined : codecs.openResampler(format.rateHz, rateHz);
    try {
      const joint = before && (await jointAfter(before, rateHz, codecs));
      const encoder = await codecs.opus.createEncoder(rateHz);
      const ingest = new SampleIngest(format, rateHz, { encoder, resampler }, sink);
      ingest.#joint = joint;
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
    this.#read = openSampleReader(format.codec);
    this.#frame = new Float32Array((rateHz * FRAME_MS) / 1000);
    this.#encoder = codecs.encoder;
    this.#resampler = codecs.resampler;
    this.#sink = sink;
  }

  push(message: Buffer, atMs: number): void {
    const bytes = this.#takeWhole(message);
    if (bytes.length === 0) return;
    const samples = downmix(this.#read(bytes), this.#format.channels);
    this.#encode(this.#resampler ? this.#resampler.process(samples) : samples, atMs);
  }

  /** A message may end in the middle of a sample. */
  skip(message: Buffer): void {
    this.#takeWhole(message);
    this.#filledSamples = 0;
  }

  close(): void {
    this.#encoder.close();
    this.#resampler?.close();
  }

  /** Lets the first frame go on from what was heard before it; returns what it has no place for any more. */
  #joinOn({ before, onward, atMs }: Joint, nowMs: number): Float32Array {
    const frame = this.#frame;
    this.#joint = undefined;
    if (nowMs - atMs > MAX_JOINT_MS) return NOTHING;
    const later = bestPlace(onward, frame);
    const left = frame.slice(frame.length - later);
    frame.copyWithin(later, 0);
    frame.set(onward.subarray(0, later));
    crossFade(frame.subarray(later), onward.subarray(later));
    this.#encoder.prime(before);
    return left;
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
      const left = this.#joint ? this.#joinOn(this.#joint, atMs) : NOTHING;
      this.#sink(this.#encoder.encode(this.#frame), FRAME_SAMPLES, audioLevelOf(this.#frame), atMs);
      this.#frame.set(left);
      this.#filledSamples = left.length;
    }
  }
}
