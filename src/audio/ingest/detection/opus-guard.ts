import { opusPacketSamples, UnvoicedCopies } from '../../opus-packet.ts';
import { ForeignShapes } from './foreign-shapes.ts';
import type { FormatGuard, Look } from './format-guard.ts';

/** Number of packets within which a second odd packet makes the stream suspect. */
const ODD_WITHIN = 6;
/** Ratio of the length of a packet to that of the longest one before it above which the packet is suspect. */
const LONGER = 3;
/** Minimum length of a suspect packet, bytes per sample at 48 kHz: 200 kbit/s. Music after silence takes less. */
const LEAST_LONG_BYTES_PER_SAMPLE = 0.52;
/** Number of consecutive packets with the shape of another protocol from which the stream is suspect: the first packets may not show it. */
const FOREIGN_PACKETS = 8;
/** Number of packets that are not compared after two without a common shape, because a comparison takes longer than all other checks. */
const SKIPPED_PACKETS = 30;
/** Number of impossible copies above which packets count as encrypted. */
const MOST_COPIES = 2;
/** Factor by which that number falls with each packet. */
const COPIES_LEFT = 0.9;
/** Maximum number of configurations that a stream of Opus is expected to use. */
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
    // Shapes are not compared here: the detection has compared these messages, and comparing all of
    // them at once again would take too long.
    this.#check(message, atMs);
    this.#sinceOdd = Infinity;
  }

  look(message: Buffer, _startsAtBytes: number, atMs: number): Look {
    return this.#isForeign(message) ? 'wrong' : this.#check(message, atMs);
  }

  #check(message: Buffer, atMs: number): Look {
    this.#sinceOdd += 1;
    const samples = opusPacketSamples(message);
    // The reader drops a malformed packet; a single one is no other format.
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

  /** Returns true if this packet and the {@link FOREIGN_PACKETS} − 1 before it have the shape of another protocol. */
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

  /** Returns true if this and earlier packets contain impossible copies, as encrypted ones do. */
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
    return isSecond ? 'wrong' : 'other_shape';
  }
}
