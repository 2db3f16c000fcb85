import { PartylineError } from '../protocol/errors.ts';
import { SILENCE_DBOV } from '../rtp/packet.ts';
import { type AudioFormat, FRAME_SAMPLES } from './format.ts';
import { levelDbov } from './level.ts';
import type { OpusCodec, OpusDecoder, OpusEncoder } from './opus-codec.ts';
import { isOpusSilence, opusPacketSamples } from './opus-packet.ts';
import { readS16le } from './pcm.ts';

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
  codec: OpusCodec,
  sink: OpusSink,
): Promise<Ingest> {
  return format.codec === 'opus'
    ? new OpusIngest(await codec.createDecoder(), sink)
    : new PcmIngest(await codec.createEncoder(), sink);
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

/** 16-bit PCM in, 48 kHz mono: cut into frames of 20 ms, whatever the lengths of the messages, and encoded. */
class PcmIngest implements Ingest {
  readonly #encoder: OpusEncoder;
  readonly #sink: OpusSink;
  readonly #frame = Buffer.alloc(FRAME_SAMPLES * 2);
  #filledBytes = 0;

  constructor(encoder: OpusEncoder, sink: OpusSink) {
    this.#encoder = encoder;
    this.#sink = sink;
  }

  push(message: Buffer): void {
    for (let at = 0; at < message.length;) {
      const copied = message.copy(this.#frame, this.#filledBytes, at);
      at += copied;
      this.#filledBytes += copied;
      if (this.#filledBytes < this.#frame.length) return;
      this.#filledBytes = 0;
      const samples = readS16le(this.#frame);
      this.#sink(this.#encoder.encode(samples), FRAME_SAMPLES, levelDbov(samples));
    }
  }

  close(): void {
    this.#encoder.close();
  }
}
