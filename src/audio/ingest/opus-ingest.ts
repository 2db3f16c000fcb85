import { counters } from '../../counters.ts';
import { PartylineError } from '../../protocol/errors.ts';
import { SILENCE_LEVEL } from '../../rtp/packet.ts';
import type { Ingest, OpusTarget } from './ingest.ts';
import { SAMPLE_RATE_HZ } from '../format.ts';
import { audioLevelOf } from '../level.ts';
import type { OpusDecoder } from '../opus-codec.ts';
import {
  boundedOpusPacket,
  isCelt,
  isOpusSilence,
  MAX_BYTES_PER_20_MS,
  opusPacketSamples,
} from '../opus-packet.ts';

/** Number of consecutive malformed packets that are not accidental. */
const MAX_MALFORMED_IN_A_ROW = 5;
/** Interval, in packets, at which a packet of a talking peer is decoded to measure its level, which changes slowly. */
const METER_EVERY_LOUD = 5;
/**
 * Audio level, -dBov, of the softest packets that are talk beyond doubt: 7 dB above the loudest noise of a fan (`SteadyNoise`). Each softer
 * packet is decoded: it may be the noise before a word, whose beginning must not be missed.
 */
const LOUD_LEVEL = 27;
/**
 * Interval, in packets, while the peer is quiet: a breath before a word may be missed. Packets of CELT state most of their energy as a
 * difference to the packet before: a decoder that has missed every other one would find a word 20 dB too soft for 60 ms,
 * so each of these is decoded.
 */
const METER_EVERY_QUIET = 2;
/** Audio level, -dBov, of the loudest packets that are quiet. */
const QUIET_LEVEL = 55;
/**
 * Length of packets, samples, for which that interval applies. Each packet of another length is decoded while the peer is quiet: a long packet
 * may hold a whole syllable, and short ones depend on those before them, so that one alone does not determine the level.
 */
const METERED_SAMPLES = 960;

/** Sound that is charged in one step, s: most frames, the median too, do not enter the budget. */
const CHARGED_AT_ONCE_S = 1;

/** Ingest of Opus: hands on packets unchanged, but for excessive padding; decodes some of them to measure their level. */
export class OpusIngest implements Ingest {
  readonly #meter: OpusDecoder;
  readonly #target: OpusTarget;
  #audioLevel = SILENCE_LEVEL;
  #untilMeter = 0;
  /** Number of consecutive malformed packets; its initial value refuses a stream that does not begin with Opus at once. */
  #malformedInARow = MAX_MALFORMED_IN_A_ROW - 1;

  constructor(meter: OpusDecoder, target: OpusTarget) {
    this.#meter = meter;
    this.#target = target;
  }

  push(message: Buffer, atMs: number): void {
    const durationSamples = opusPacketSamples(message);
    if (durationSamples !== undefined && !this.#admit(durationSamples, atMs)) return;
    // A shorter packet is not too long, whatever its duration.
    const mayBeTooLong = durationSamples !== undefined && message.length > MAX_BYTES_PER_20_MS;
    const packet = mayBeTooLong ? boundedOpusPacket(message, durationSamples) : message;
    if (durationSamples === undefined || !packet || !this.#measure(packet, durationSamples)) {
      counters.dropped.undecodable += 1;
      this.#malformedInARow += 1;
      if (this.#malformedInARow < MAX_MALFORMED_IN_A_ROW) return;
      throw new PartylineError('unsupported_audio', 'The binary frames are not Opus packets.');
    }
    this.#malformedInARow = 0;
    this.#target.sink(packet, durationSamples, this.#audioLevel, atMs);
  }

  /** Has no effect: each message is a packet. */
  skip(): void {}

  /** Charges a packet before it may be decoded: a few bytes may last 120 ms. @returns false for one beyond the budget */
  #admit(durationSamples: number, atMs: number): boolean {
    const { sound } = this.#target;
    if (durationSamples > sound.spareSamples) {
      const seconds = durationSamples / SAMPLE_RATE_HZ;
      if (!sound.admit(seconds, atMs, CHARGED_AT_ONCE_S)) return false;
      sound.spareSamples += CHARGED_AT_ONCE_S * SAMPLE_RATE_HZ;
    }
    sound.spareSamples -= durationSamples;
    return true;
  }

  /** Updates the level; returns false if libopus cannot decode the packet. */
  #measure(packet: Buffer, durationSamples: number): boolean {
    if (isOpusSilence(packet)) {
      this.#audioLevel = SILENCE_LEVEL;
      this.#untilMeter = 0;
      return true;
    }
    if (this.#untilMeter > 0) {
      this.#untilMeter -= 1;
      return true;
    }
    try {
      this.#audioLevel = audioLevelOf(this.#meter.decode(packet));
    } catch {
      // The caller counts the packet, and reports a series of them to the client.
      return false;
    }
    this.#untilMeter = this.#meterEvery(packet, durationSamples) - 1;
    return true;
  }

  #meterEvery(packet: Buffer, durationSamples: number): number {
    if (this.#audioLevel <= LOUD_LEVEL) return METER_EVERY_LOUD;
    const isQuiet = this.#audioLevel >= QUIET_LEVEL;
    const isMeteredApart = durationSamples === METERED_SAMPLES && !isCelt(packet);
    return isQuiet && isMeteredApart ? METER_EVERY_QUIET : 1;
  }

  close(): void {
    this.#meter.close();
  }
}
