import { PartylineError } from '../protocol/errors.ts';
import { SILENCE_DBOV } from '../rtp/packet.ts';
import type { Codecs } from './codecs.ts';
import {
  type AudioFormat,
  FRAME_MS,
  FRAME_SAMPLES,
  SAMPLE_RATE_HZ,
  type SampleFormat,
} from './format.ts';
import { levelDbov } from './level.ts';
import { OPUS_RATES_HZ, type OpusDecoder, type OpusEncoder } from './opus-codec.ts';
import { isOpusSilence, opusPacketSamples } from './opus-packet.ts';
import type { Resampler } from './resampler.ts';
import { BYTES_PER_SAMPLE, downmix, readSamples } from './samples.ts';

/** Takes one Opus packet: what it holds at 48 kHz, and its RFC 6464 level. */
export type OpusSink = (packet: Buffer, durationSamples: number, levelDbov: number) => void;

/** What a peer's binary messages become on their way to its uplink: any format in, Opus packets out. */
export type Ingest = {
  /**
   * Takes one binary message of at least one byte; hands on as many packets as it completes.
   * @throws {PartylineError} `unsupported_audio` when the bytes are, beyond doubt, not what was declared
   */
  push(message: Buffer): void;
  close(): void;
};

/** Opens the ingest for a declared format. */
export async function createIngest(
  format: AudioFormat,
  codecs: Codecs,
  sink: OpusSink,
): Promise<Ingest> {
  return format.codec === 'opus'
    ? new OpusIngest(await codecs.opus.createDecoder(), sink)
    : await SampleIngest.open(format, codecs, sink);
}

/** So many malformed packets in a row are no accident. */
const MAX_MALFORMED_IN_A_ROW = 5;
/** While a peer talks its level changes slowly: one packet in so many is decoded to measure it. */
const METER_EVERY_LOUD = 5;
/** While it is quiet the next word must not be missed. */
const METER_EVERY_QUIET = 2;
/** Louder than this counts as sound for the choice between the two. */
const QUIET_DBOV = 70;

/** Opus in: packets pass through untouched; now and then one is decoded, only to know how loud it is. */
class OpusIngest implements Ingest {
  readonly #meter: OpusDecoder;
  readonly #sink: OpusSink;
  #levelDbov = SILENCE_DBOV;
  #untilMeter = 0;
  /** A stream that does not begin with Opus is refused at once. */
  #malformedInARow = MAX_MALFORMED_IN_A_ROW - 1;

  constructor(meter: OpusDecoder, sink: OpusSink) {
    this.#meter = meter;
    this.#sink = sink;
  }

  push(packet: Buffer): void {
    const durationSamples = opusPacketSamples(packet);
    if (durationSamples === undefined || !this.#measure(packet)) {
      this.#malformedInARow += 1;
      if (this.#malformedInARow < MAX_MALFORMED_IN_A_ROW) return;
      throw new PartylineError('unsupported_audio', 'The binary frames are not Opus packets.');
    }
    this.#malformedInARow = 0;
    this.#sink(packet, durationSamples, this.#levelDbov);
  }

  /** Keeps the level up to date; false if libopus cannot decode the packet. */
  #measure(packet: Buffer): boolean {
    if (isOpusSilence(packet)) {
      this.#levelDbov = SILENCE_DBOV;
      this.#untilMeter = 0;
      return true;
    }
    if (this.#untilMeter > 0) {
      this.#untilMeter -= 1;
      return true;
    }
    try {
      this.#levelDbov = levelDbov(this.#meter.decode(packet));
    } catch {
      // The caller counts it, and tells the client when it goes on.
      return false;
    }
    this.#untilMeter = (this.#levelDbov < QUIET_DBOV ? METER_EVERY_LOUD : METER_EVERY_QUIET) - 1;
    return true;
  }

  close(): void {
    this.#meter.close();
  }
}

/** Samples in: cut into frames of 20 ms, whatever the lengths of the messages, and encoded at a rate that Opus takes. */
class SampleIngest implements Ingest {
  readonly #format: SampleFormat;
  readonly #encoder: OpusEncoder;
  readonly #resampler: Resampler | undefined;
  readonly #sink: OpusSink;
  /** The bytes of a sample that the last message cut in two. */
  #rest: Buffer = Buffer.alloc(0);
  readonly #frame: Float32Array;
  #filledSamples = 0;

  static async open(format: SampleFormat, codecs: Codecs, sink: OpusSink): Promise<SampleIngest> {
    const rateHz = OPUS_RATES_HZ.find((rate) => rate >= format.rateHz) ?? SAMPLE_RATE_HZ;
    const encoder = await codecs.opus.createEncoder(rateHz);
    const resampler =
      rateHz === format.rateHz ? undefined : codecs.openResampler(format.rateHz, rateHz);
    return new SampleIngest(format, (rateHz * FRAME_MS) / 1000, { encoder, resampler }, sink);
  }

  private constructor(
    format: SampleFormat,
    frameSamples: number,
    codecs: { encoder: OpusEncoder; resampler: Resampler | undefined },
    sink: OpusSink,
  ) {
    this.#format = format;
    this.#frame = new Float32Array(frameSamples);
    this.#encoder = codecs.encoder;
    this.#resampler = codecs.resampler;
    this.#sink = sink;
  }

  push(message: Buffer): void {
    const { codec, channels } = this.#format;
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, message]) : message;
    const wholeBytes = bytes.length - (bytes.length % (BYTES_PER_SAMPLE[codec] * channels));
    this.#rest = Buffer.from(bytes.subarray(wholeBytes));
    if (wholeBytes === 0) return;
    const samples = downmix(readSamples(bytes.subarray(0, wholeBytes), codec), channels);
    this.#encode(this.#resampler ? this.#resampler.process(samples) : samples);
  }

  close(): void {
    this.#encoder.close();
    this.#resampler?.close();
  }

  #encode(samples: Float32Array): void {
    for (let at = 0; at < samples.length;) {
      const part = samples.subarray(at, at + this.#frame.length - this.#filledSamples);
      this.#frame.set(part, this.#filledSamples);
      this.#filledSamples += part.length;
      at += part.length;
      if (this.#filledSamples < this.#frame.length) return;
      this.#filledSamples = 0;
      this.#sink(this.#encoder.encode(this.#frame), FRAME_SAMPLES, levelDbov(this.#frame));
    }
  }
}
