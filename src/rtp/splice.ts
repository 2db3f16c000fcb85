import { SAMPLES_PER_MS } from './clock-rate.ts';
import type { MediaPacket } from './packet.ts';
import { sequenceDelta } from './sequence.ts';

/**
 * Joins consecutive RTP streams, each with numbers of its own, into one: the first packet of the next
 * continues the numbers of the last. Pure: the caller passes the time.
 */
export class Splice {
  #sequenceOffset = 0;
  #timestampOffset = 0;
  /** Highest outgoing sequence number so far, and the arrival time of its packet. */
  #last: { sequenceNumber: number; timestamp: number; atMs: number } | undefined;
  #isCut = false;

  /** True if the next packet is the first of another stream. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Notes that the next packet is the first of another stream. */
  cut(): void {
    this.#isCut = this.#last !== undefined;
  }

  /** Returns a packet with its numbers in the joined stream. The hot path: runs for every packet in the room. */
  join(packet: MediaPacket, nowMs: number): MediaPacket {
    const last = this.#last;
    if (!last) {
      const { sequenceNumber, timestamp } = packet;
      this.#last = { sequenceNumber, timestamp, atMs: nowMs };
      return packet;
    }
    if (this.#isCut) this.#begin(packet, last, nowMs);
    const isUnchanged = this.#sequenceOffset === 0 && this.#timestampOffset === 0;
    const joined = isUnchanged ? packet : this.#shifted(packet);
    if (sequenceDelta(last.sequenceNumber, joined.sequenceNumber) > 0) {
      last.sequenceNumber = joined.sequenceNumber;
      last.timestamp = joined.timestamp;
      last.atMs = nowMs;
    }
    return joined;
  }

  #begin(
    { sequenceNumber, timestamp }: MediaPacket,
    last: { sequenceNumber: number; timestamp: number; atMs: number },
    nowMs: number,
  ): void {
    const sinceSamples = Math.round((nowMs - last.atMs) * SAMPLES_PER_MS);
    this.#isCut = false;
    this.#sequenceOffset = last.sequenceNumber + 1 - sequenceNumber;
    this.#timestampOffset = last.timestamp + sinceSamples - timestamp;
  }

  #shifted(packet: MediaPacket): MediaPacket {
    return {
      ...packet,
      sequenceNumber: (packet.sequenceNumber + this.#sequenceOffset) & 0xffff,
      timestamp: (packet.timestamp + this.#timestampOffset) >>> 0,
    };
  }
}
