import { opusPacketSamples, UnvoicedCopies } from '../../opus-packet.ts';
import { unexplainedBitsPerByte } from './description-length.ts';
import { ForeignShapes } from './foreign-shapes.ts';
import type { FormatGuard, Look } from './format-guard.ts';

/** Number of packets within which a second odd one makes the stream suspect. */
const ODD_WITHIN = 6;
/** Ratio of the length of a packet to the longest before it from which the packet is suspect. */
const LONGER = 3;
/** Minimum length of a suspect packet, bytes per sample at 48 kHz: 200 kbit/s. Music after silence takes less. */
const LEAST_LONG_BYTES_PER_SAMPLE = 0.52;
/** Number of consecutive packets that show another protocol, which the first ones may not have shown. */
const FOREIGN_PACKETS = 8;
/** Number of packets after two without a common shape that are not compared: a comparison takes longer than the rest. */
const SKIPPED_PACKETS = 30;
/** Number of impossible copies from which packets are encrypted, and the share of it that is left with each packet. */
const MOST_COPIES = 2;
const COPIES_LEFT = 0.9;
/** Maximum number of configurations of a real stream. */
const MOST_CONFIGURATIONS = 12;

/** Guard of Opus: each packet contains its duration and mode, which senders seldom change. */
export class OpusGuard implements FormatGuard {
  readonly #seen = new Set<number>();
  #longestBytes = 0;
  #samples: number | undefined;
  #sinceOdd = Infinity;
  readonly #foreign = new ForeignShapes();
  /** Number of consecutive packets so far that have a shape of another protocol in common. */
  #comparedPackets = 0;
  #skippedPackets = 0;
  readonly #unvoiced = new UnvoicedCopies();
  #copies = 0;

  learn(message: Buffer, atMs: number): void {
    // The detection has compared the held messages: comparing all of them at once again would take
    // too long.
    this.#check(message, atMs);
    this.#sinceOdd = Infinity;
  }

  look(message: Buffer, _startsAtBytes: number, atMs: number): Look {
    return this.#isForeign(message) ? 'wrong' : this.#check(message, atMs);
  }

  #check(message: Buffer, atMs: number): Look {
    this.#sinceOdd += 1;
    const samples = opusPacketSamples(message);
    // One malformed packet is dropped by the reader.
    if (samples === undefined) return this.#isOdd();
    if (this.#areSealed(message, atMs)) return 'wrong';
    const configuration = message[0]! >> 2;
    const isFirst = this.#seen.size === 0;
    const isNew = !this.#seen.has(configuration) && this.#seen.size < MOST_CONFIGURATIONS;
    const leastLongBytes = LEAST_LONG_BYTES_PER_SAMPLE * samples;
    const isLong = message.length > Math.max(leastLongBytes, LONGER * this.#longestBytes);
    const isOfOtherLength = samples !== this.#samples;
    this.#seen.add(configuration);
    this.#longestBytes = Math.max(this.#longestBytes, message.length);
    this.#samples = samples;
    if (isFirst) return 'as_before';
    if (isLong || (isNew && isOfOtherLength)) return 'wrong';
    return isNew ? this.#isOdd() : 'as_before';
  }

  reassure(): void {
    this.#sinceOdd = Infinity;
  }

  /** Returns true for the last of some packets that are all of another protocol. */
  #isForeign(message: Buffer): boolean {
    if (this.#skippedPackets > 0) {
      this.#skippedPackets -= 1;
      return false;
    }
    const isAlike = this.#foreign.push(message);
    if (!isAlike && this.#comparedPackets > 0) {
      this.#comparedPackets = 0;
      this.#skippedPackets = SKIPPED_PACKETS;
      return false;
    }
    this.#comparedPackets += 1;
    if (this.#comparedPackets < FOREIGN_PACKETS || !this.#foreign.areForeign) return false;
    this.#comparedPackets = 0;
    return true;
  }

  /** Returns true for a packet that contains one of several impossible copies. */
  #areSealed(packet: Buffer, atMs: number): boolean {
    this.#copies *= COPIES_LEFT;
    if (!this.#unvoiced.push(packet, atMs)) return false;
    this.#copies += 1;
    if (this.#copies <= MOST_COPIES) return false;
    this.#copies = 0;
    return true;
  }

  #isOdd(): Look {
    const isSecond = this.#sinceOdd <= ODD_WITHIN;
    this.#sinceOdd = 0;
    return isSecond ? 'wrong' : 'changed';
  }
}

/** Minimum decrease of the content of a message, bits a byte. */
const SIMPLER_BY_BITS = 0.3;
const LOOKED_AT_BYTES = 256;
/** Number of consecutive packets that begin as those of Opus do. */
const ALIKE_PACKETS = 3;

/** Guard of opaque streams: detects messages that may be of a known format after all. They are not decoded meanwhile. */
export class OpaqueGuard implements FormatGuard {
  #leastBits = Infinity;
  #configuration = -1;
  #alike = 0;

  learn(message: Buffer): void {
    this.look(message);
  }

  look(message: Buffer): Look {
    const configuration = opusPacketSamples(message) === undefined ? -1 : message[0]! >> 2;
    this.#alike = configuration === this.#configuration ? this.#alike + 1 : 1;
    this.#configuration = configuration;
    if (configuration !== -1 && this.#alike === ALIKE_PACKETS) return 'changed';
    if (message.length < LOOKED_AT_BYTES) return 'as_before';
    const bits = unexplainedBitsPerByte(message.subarray(0, LOOKED_AT_BYTES));
    if (bits > this.#leastBits - SIMPLER_BY_BITS) return 'as_before';
    const isFirst = this.#leastBits === Infinity;
    this.#leastBits = bits;
    return isFirst ? 'as_before' : 'changed';
  }

  reassure(): void {}
}
