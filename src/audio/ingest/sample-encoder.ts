import type { Codecs } from '../codecs.ts';
import { FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ } from '../format.ts';
import { isCutBetween, type OpusTarget } from './ingest.ts';
import { bestOffsetSamples, type Splice, spliceAfter, type LastPackets } from './splice.ts';
import { audioLevelOf } from '../level.ts';
import { crossFade } from '../ramps.ts';
import { OPUS_RATES_HZ, type OpusEncoder } from '../opus-codec.ts';
import type { Resampler } from '../resampler.ts';

/** Maximum gap across which audio is joined, ms; after a longer one the sender has paused, and its next samples continue nothing. */
const MAX_JOINT_MS = 100;
/** Minimum time after the end of the last samples that is a pause of an even sender, ms: the rest of a frame is not heard after it. */
const LEAST_PAUSE_MS = 500;
/** Lead of the last samples over real time, ms, above which they belong to a piece. */
const LEAD_OF_PIECES_MS = 200;
/** Minimum time between two messages that is a pause of a sender of pieces, ms: pieces of 2 s come sooner, even if one is late. */
const LEAST_PAUSE_OF_PIECES_MS = 2500;
/** Share of the time between two messages by which the lead is reduced: an even sender has none for long, whatever its clock and its stalls. */
const LEAD_REDUCTION = 0.1;
const NOTHING = new Float32Array(0);

/** Encodes mono samples in pieces of any length: cuts them into frames of 20 ms, at a rate that Opus accepts. */
export class SampleEncoder {
  readonly #encoder: OpusEncoder;
  readonly #resampler: Resampler | undefined;
  readonly #target: OpusTarget;
  readonly #frame: Float32Array;
  #filledSamples = 0;
  /** Arrival time of the last samples, ms. */
  #atMs = -Infinity;
  /** Time at which the last samples end in real time, ms. */
  #endsMs = -Infinity;
  /** Splice with the previous audio, until the first frame. */
  #splice: Splice | undefined;

  /**
   * @param sampleRateHz rate of the pushed samples
   * @param before last packets that were handed on before this encoder takes over, in the middle of a sound
   */
  static async open(
    sampleRateHz: number,
    codecs: Codecs,
    target: OpusTarget,
    before?: LastPackets,
  ): Promise<SampleEncoder> {
    const rateHz = OPUS_RATES_HZ.find((rate) => rate >= sampleRateHz) ?? SAMPLE_RATE_HZ;
    const resampler =
      rateHz === sampleRateHz ? undefined : codecs.openResampler(sampleRateHz, rateHz);
    try {
      const splice = before && (await spliceAfter(before, rateHz, codecs));
      const encoder = await codecs.opus.createEncoder(rateHz);
      return new SampleEncoder(rateHz, { encoder, resampler }, target, splice);
    } catch (fault) {
      resampler?.close();
      throw fault;
    }
  }

  private constructor(
    rateHz: number,
    codecs: { encoder: OpusEncoder; resampler: Resampler | undefined },
    target: OpusTarget,
    splice: Splice | undefined,
  ) {
    this.#frame = new Float32Array((rateHz * FRAME_MS) / 1000);
    this.#encoder = codecs.encoder;
    this.#resampler = codecs.resampler;
    this.#target = target;
    this.#splice = splice;
  }

  push(samples: Float32Array, atMs: number): void {
    const isCut = isCutBetween(this.#target, this.#atMs, atMs);
    if (isCut || this.#isAfterPause(atMs)) this.skip();
    const converted = this.#resampler ? this.#resampler.process(samples) : samples;
    const beginsMs = Math.max(this.#endsMs - LEAD_REDUCTION * (atMs - this.#atMs), atMs);
    this.#endsMs = beginsMs + (converted.length / this.#frame.length) * FRAME_MS;
    this.#atMs = atMs;
    this.#encode(converted, atMs);
  }

  /** True for samples before which the sender has paused. */
  #isAfterPause(atMs: number): boolean {
    const isOfPieces = this.#endsMs - this.#atMs > LEAD_OF_PIECES_MS;
    if (isOfPieces) return atMs - this.#atMs >= LEAST_PAUSE_OF_PIECES_MS;
    return atMs - this.#endsMs >= LEAST_PAUSE_MS;
  }

  /** Notes an omission: the next samples do not continue the previous ones. */
  skip(): void {
    this.#filledSamples = 0;
  }

  close(): void {
    this.#encoder.close();
    this.#resampler?.close();
  }

  /** Joins the first frame to the audio heard before it; returns the samples that no longer fit into the frame. */
  #joinOn({ before, onward, atMs }: Splice, nowMs: number): Float32Array {
    const frame = this.#frame;
    this.#splice = undefined;
    if (nowMs - atMs > MAX_JOINT_MS) return NOTHING;
    const later = bestOffsetSamples(onward, frame);
    const left = frame.slice(frame.length - later);
    frame.copyWithin(later, 0);
    frame.set(onward.subarray(0, later));
    crossFade(frame.subarray(later), onward.subarray(later));
    this.#encoder.prime(before);
    return left;
  }

  #encode(samples: Float32Array, atMs: number): void {
    for (let at = 0; at < samples.length;) {
      const part = samples.subarray(at, at + this.#frame.length - this.#filledSamples);
      this.#frame.set(part, this.#filledSamples);
      this.#filledSamples += part.length;
      at += part.length;
      if (this.#filledSamples < this.#frame.length) return;
      const left = this.#splice ? this.#joinOn(this.#splice, atMs) : NOTHING;
      const packet = this.#encoder.encode(this.#frame);
      this.#target.sink(packet, FRAME_SAMPLES, audioLevelOf(this.#frame), atMs);
      this.#frame.set(left);
      this.#filledSamples = left.length;
    }
  }
}
