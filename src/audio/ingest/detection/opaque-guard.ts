import { opusPacketSamples } from '../../opus-packet.ts';
import { type Rate, TokenBucket } from '../../../token-bucket.ts';
import type { SampleCodec } from '../../format.ts';
import { areAbsurdFloats } from './float-sizes.ts';
import type { FormatGuard, Look } from './format-guard.ts';
import { quickEstimate } from './quick-bits.ts';
import { isDigitalSilence } from './silence.ts';

/** Number of consecutive messages that begin as equal Opus packets from which they may be Opus. */
const ALIKE_PACKETS = 3;

/** Number of bytes that are read: a whole number of samples of each codec. Shorter messages are read together. */
const LOOKED_AT_BYTES = 240;
/** Minimum time from one reading to the messages of the next, ms, because a reading takes about 17 µs. */
const LEAST_BETWEEN_READS_MS = 50;
/** Codecs as which the bytes are read. */
const READINGS: readonly SampleCodec[] = [
  'pcm_s16le',
  'pcm_s16be',
  'pcmu',
  'pcma',
  'pcm_f32le',
  'pcm_u8',
  'pcm_s24le',
  'pcm_s32le',
  'g722',
];
/** Bits a byte of a reading that explains nothing. */
const UNEXPLAINED_BITS = 8;
/** Difference from the usual bits a byte from which a reading tells of another format: this, and `OTHER_BY_DEVIATIONS` mean deviations. */
const OTHER_BY_BITS = 0.3;
const OTHER_BY_DEVIATIONS = 4;
/** Time in which the usual bits follow those of the messages, ms; bytes from before a longer pause are not read with those after it. */
const FOLLOWING_MS = 2000;

/** Length from which a single message of other content counts, bytes: plaintext between encrypted messages is mostly shorter. */
const LEAST_LONG_BYTES = 4096;

/** Minimum time between alarms, ms: a check takes about as long. */
const LEAST_BETWEEN_MS = 250;
/** Number of alarms at once, and per second: each may cause a check, which takes some milliseconds. */
const ALARMS: Rate = { perSecond: 0.2, burst: 5 };

/**
 * Guard of opaque streams: notices messages that may be of a known format after all. Samples of G.711 and floats have almost as many
 * different bytes as encrypted data, so the bytes are read as samples of each codec, and the bits of each reading are compared with those
 * of the messages before.
 */
export class OpaqueGuard implements FormatGuard {
  #configuration = -1;
  #alike = 0;
  /** Bytes for the next reading, copied from messages that may be too short to be read by themselves, and their number. */
  readonly #kept = Buffer.alloc(LOOKED_AT_BYTES);
  #keptBytes = 0;
  #keptAtMs = -Infinity;
  /** Usual bits a byte of each reading, and their mean deviation from it; empty before the first. */
  readonly #usual: number[] = [];
  readonly #deviations: number[] = [];
  #reads = 0;
  /** Bits of the last reading, which the usual ones follow only at the next, and the share that these bits then get. */
  #last: readonly number[] = [];
  #lastShare = 0;
  /** Codecs as which the last reading differed from the usual, a bit each. */
  #lastOtherCodecs = 0;
  #readAtMs = -Infinity;
  #alarmAtMs = -Infinity;
  readonly #alarms = new TokenBucket(ALARMS, 0);

  learn(message: Buffer, atMs: number): void {
    this.#noteBeginning(message);
    this.#noteContent(message, atMs);
  }

  look(message: Buffer, _startsAtBytes: number, atMs: number): Look {
    const mayBeOpus = this.#noteBeginning(message);
    const isOther = this.#noteContent(message, atMs);
    // Opus has its own check, which began with its first packets: another would delay it.
    const areAlike = this.#configuration !== -1 && this.#alike >= ALIKE_PACKETS;
    if (isOther && !areAlike && this.#mayAlarm(atMs)) return 'other_content';
    return mayBeOpus ? 'other_shape' : 'as_before';
  }

  reassure(): void {}

  /** Notes how a message begins. @returns true for the last of a number of consecutive messages that begin as equal Opus packets */
  #noteBeginning(message: Buffer): boolean {
    const configuration = opusPacketSamples(message) === undefined ? -1 : message[0]! >> 2;
    this.#alike = configuration === this.#configuration ? this.#alike + 1 : 1;
    this.#configuration = configuration;
    return configuration !== -1 && this.#alike === ALIKE_PACKETS;
  }

  /**
   * Notes the content of a message; short messages are read together.
   * @returns true if it is other than usual, and so was that before it, or the message is long
   */
  #noteContent(message: Buffer, atMs: number): boolean {
    // Digital silence is of any format, and is not heard.
    if (isDigitalSilence(message)) return false;
    if (atMs - this.#keptAtMs > FOLLOWING_MS) this.#keptBytes = 0;
    // A reading that differed is compared with the next at once.
    const isEarly = this.#lastOtherCodecs === 0 && atMs - this.#readAtMs < LEAST_BETWEEN_READS_MS;
    if (this.#keptBytes === 0 && isEarly) return false;
    // A long message is read by itself.
    if (message.length >= LEAST_LONG_BYTES) this.#keptBytes = 0;
    this.#keptBytes += message.copy(this.#kept, this.#keptBytes);
    this.#keptAtMs = atMs;
    if (this.#keptBytes < LOOKED_AT_BYTES) return false;
    this.#keptBytes = 0;
    return this.#read(this.#kept, atMs, message.length >= LEAST_LONG_BYTES);
  }

  /**
   * Reads bytes as each codec. A single message of other content, such as plaintext between encrypted ones, is no change.
   * @param isLong true if the bytes are of a long message
   * @returns true if this reading and the last both differ from the usual, as one codec; for a long message this one is enough
   */
  #read(bytes: Buffer, atMs: number, isLong: boolean): boolean {
    const bits = READINGS.map((codec) => bitsOf(bytes, codec));
    const otherCodecs = this.#otherCodecsOf(bits);
    const isOther = (isLong ? otherCodecs : otherCodecs & this.#lastOtherCodecs) !== 0;
    this.#followLast();
    this.#reads += 1;
    const followed = (atMs - this.#readAtMs) / FOLLOWING_MS;
    this.#lastShare = Math.min(1, Math.max(1 / this.#reads, followed));
    this.#last = bits;
    this.#lastOtherCodecs = otherCodecs;
    this.#readAtMs = atMs;
    return isOther;
  }

  /** Returns the codecs as which bits differ from the usual, a bit each. */
  #otherCodecsOf(bits: readonly number[]): number {
    let otherCodecs = 0;
    for (const [i, usual] of this.#usual.entries()) {
      const leastDifference = OTHER_BY_BITS + OTHER_BY_DEVIATIONS * this.#deviations[i]!;
      if (Math.abs(bits[i]! - usual) > leastDifference) otherCodecs |= 1 << i;
    }
    return otherCodecs;
  }

  /** Lets the usual bits follow those of the last reading. */
  #followLast(): void {
    for (const [i, bits] of this.#last.entries()) {
      const usual = this.#usual[i] ?? bits;
      const deviation = this.#deviations[i] ?? 0;
      this.#usual[i] = usual + this.#lastShare * (bits - usual);
      this.#deviations[i] = deviation + this.#lastShare * (Math.abs(bits - usual) - deviation);
    }
  }

  #mayAlarm(atMs: number): boolean {
    if (atMs - this.#alarmAtMs < LEAST_BETWEEN_MS || this.#alarms.take(1, atMs) < 0) return false;
    this.#alarmAtMs = atMs;
    return true;
  }
}

/** Returns the bits a byte of a reading. */
function bitsOf(bytes: Buffer, codec: SampleCodec): number {
  if (codec === 'pcm_f32le' && areAbsurdFloats(bytes)) return UNEXPLAINED_BITS;
  return Math.min(UNEXPLAINED_BITS, quickEstimate(bytes, codec, 1).bitsPerByte);
}
