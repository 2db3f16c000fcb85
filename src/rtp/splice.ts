import { SAMPLES_PER_MS } from './clock-rate.ts';
import type { MediaPacket } from './packet.ts';
import { sequenceDelta, timestampDelta } from './sequence.ts';

/** Largest distance by number at which an earlier packet is late; a packet further back begins another stream, as in a `Reorderer`. */
const MAX_LATE_PACKETS = 1000;
/** Distance of an earlier number with a later timestamp that no late packet has: another stream at once, as in a `Reorderer`. */
const MAX_JUMP_SAMPLES = 500 * SAMPLES_PER_MS;
const MAX_LOST_PACKETS = 200;
/**
 * Time and number of packets for which only earlier packets come, in order, before they count as another stream: retransmissions after
 * an outage come among live packets, or for less time.
 */
const MIN_BEHIND_MS = 500;
const MIN_BEHIND_PACKETS = 5;

/**
 * Joins consecutive RTP streams, each with numbers of its own, into one: the first packet of the next
 * continues the numbers of the last. An encoder that restarts with earlier numbers, unannounced, is noticed
 * at once by a later timestamp, and else after half a second.
 * Pure: the caller passes the time.
 */
export class Splice {
  #sequenceOffset = 0;
  #timestampOffset = 0;
  /** Highest outgoing sequence number so far, and the arrival time of its packet. */
  #last: { sequenceNumber: number; timestamp: number; atMs: number } | undefined;
  #isCut = false;
  /** Packets since the last one with a new number, if all are earlier and in order. */
  #behind: { sequenceNumber: number; sinceMs: number; packets: number } | undefined;
  #restarts = 0;

  /** Number of restarts of the encoder that were noticed at once, by a later timestamp. */
  get restarts(): number {
    return this.#restarts;
  }

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
    let joined = this.#shifted(packet);
    let ahead = sequenceDelta(last.sequenceNumber, joined.sequenceNumber);
    const laterSamples = timestampDelta(last.timestamp, joined.timestamp);
    const isFar = laterSamples > MAX_JUMP_SAMPLES || ahead < -MAX_LOST_PACKETS;
    if (ahead <= 0 && ahead >= -MAX_LATE_PACKETS && laterSamples > 0 && isFar) {
      this.#restarts += 1;
      this.#begin(packet, last, nowMs);
      joined = this.#shifted(packet);
      ahead = 1;
    }
    if (ahead <= 0 && ahead >= -MAX_LATE_PACKETS) {
      this.#noteBehind(joined.sequenceNumber, nowMs);
    } else {
      this.#behind = undefined;
      last.sequenceNumber = joined.sequenceNumber;
      last.timestamp = joined.timestamp;
      last.atMs = nowMs;
    }
    return joined;
  }

  /** Cuts the stream if it has restarted with earlier numbers. */
  #noteBehind(sequenceNumber: number, nowMs: number): void {
    const last = this.#behind;
    if (last && sequenceDelta(last.sequenceNumber, sequenceNumber) > 0) {
      last.sequenceNumber = sequenceNumber;
      last.packets += 1;
      if (last.packets >= MIN_BEHIND_PACKETS && nowMs - last.sinceMs >= MIN_BEHIND_MS) this.cut();
    } else {
      this.#behind = { sequenceNumber, sinceMs: nowMs, packets: 1 };
    }
  }

  #begin(
    { sequenceNumber, timestamp }: MediaPacket,
    last: { sequenceNumber: number; timestamp: number; atMs: number },
    nowMs: number,
  ): void {
    const sinceSamples = Math.round((nowMs - last.atMs) * SAMPLES_PER_MS);
    this.#isCut = false;
    this.#behind = undefined;
    this.#sequenceOffset = last.sequenceNumber + 1 - sequenceNumber;
    this.#timestampOffset = last.timestamp + sinceSamples - timestamp;
  }

  #shifted(packet: MediaPacket): MediaPacket {
    if (this.#sequenceOffset === 0 && this.#timestampOffset === 0) return packet;
    return {
      ...packet,
      sequenceNumber: (packet.sequenceNumber + this.#sequenceOffset) & 0xffff,
      timestamp: (packet.timestamp + this.#timestampOffset) >>> 0,
    };
  }
}
