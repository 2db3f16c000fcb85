import { SAMPLES_PER_MS } from './clock-rate.ts';
import type { MediaPacket } from './packet.ts';
import { sequenceDelta, timestampDelta } from './sequence.ts';

/** Time for which a missing packet is awaited after a later one has arrived. */
const MAX_WAIT_MS = 40;
/** Part at the end of a gap that is concealed, samples: 80 ms. */
const MAX_CONCEALED_SAMPLES = 80 * SAMPLES_PER_MS;
/** Longest gap in a stream; a larger jump begins another stream. */
const MAX_JUMP_MS = 500;
/** Longest gap in the shortest packets, of 2.5 ms; a number further away is no gap, regardless of the timestamp. */
const MAX_LOST_PACKETS = MAX_JUMP_MS / 2.5;
/**
 * Maximum gap, in packets, that still belongs to the stream while its sender pauses (DTX: one packet every 400 ms).
 */
const MAX_PAUSE_PACKETS = 25;
const MAX_PAUSE_MS = MAX_PAUSE_PACKETS * 400;
/** Maximum distance by number at which an earlier packet is late, and not of another stream; as in a `JitterBuffer`. */
const MAX_LATE_PACKETS = 1000;

/**
 * Reorders the packets of one stream without delaying any that is in order: only a gap makes later packets wait.
 * Pure: the caller passes the time.
 */
export class Reorderer {
  /** Next packet, if none was held when it arrived. This is true of nearly every packet, so that `#held` is rarely used. */
  #inTurn: MediaPacket | undefined;
  readonly #held = new Map<number, MediaPacket>();
  #next: number | undefined;
  /** Latest timestamp of the stream. */
  #timestamp = 0;
  #gapSinceMs = 0;
  #streams = 0;

  /** Number of streams that have begun; a long gap begins one, too. */
  get streams(): number {
    return this.#streams;
  }

  /** Next sequence number; undefined before the first packet. */
  get next(): number | undefined {
    return this.#next;
  }

  /** Packets that have not been taken, by arrival. */
  get waiting(): Iterable<MediaPacket> {
    return this.#inTurn ? [this.#inTurn, ...this.#held.values()] : this.#held.values();
  }

  get #isEmpty(): boolean {
    return this.#inTurn === undefined && this.#held.size === 0;
  }

  /** Inserts a packet; returns false if it is dropped, because it is too late or a duplicate. */
  insert(packet: MediaPacket, nowMs: number): boolean {
    const { sequenceNumber, timestamp } = packet;
    const ahead = this.#next === undefined ? 0 : sequenceDelta(this.#next, sequenceNumber);
    const laterSamples = timestampDelta(this.#timestamp, timestamp);
    // Late, not of another stream: browsers retransmit after an outage, and `Splice` renumbers
    // other streams.
    if (ahead < 0 && ahead >= -MAX_LATE_PACKETS && laterSamples < 0) return false;
    const jumpMs = Math.abs(laterSamples) / SAMPLES_PER_MS;
    const isFar = jumpMs > MAX_JUMP_MS || Math.abs(ahead) > MAX_LOST_PACKETS;
    const isAfterPause =
      ahead > 0 && ahead <= MAX_PAUSE_PACKETS && laterSamples > 0 && jumpMs <= MAX_PAUSE_MS;
    // The packet with the next number is in order after any pause.
    if (this.#next === undefined || (ahead !== 0 && isFar && !isAfterPause)) {
      this.#streams += 1;
      this.#inTurn = undefined;
      this.#held.clear();
      this.#next = sequenceNumber;
      this.#timestamp = timestamp;
    } else if (isFar && isAfterPause && this.#isEmpty) {
      // Packets that were lost in the pause are not awaited.
      this.#next = sequenceNumber;
    } else if (ahead < 0 || this.#has(sequenceNumber)) {
      return false;
    }
    // After a pause of more than 12 h the timestamp of a packet in order appears to be earlier.
    if (laterSamples > 0 || (ahead === 0 && this.#isEmpty)) this.#timestamp = timestamp;
    if (!this.#isEmpty) this.#held.set(sequenceNumber, packet);
    else if (this.#next === sequenceNumber) this.#inTurn = packet;
    else {
      this.#gapSinceMs = nowMs;
      this.#held.set(sequenceNumber, packet);
    }
    return true;
  }

  /** Returns the next packet; `lost` in place of one that did not arrive in time; undefined while there is none. */
  take(nowMs: number): MediaPacket | 'lost' | undefined {
    if (this.#next === undefined || this.#isEmpty) return undefined;
    const packet = this.#inTurn ?? this.#held.get(this.#next);
    if (!packet && nowMs - this.#gapSinceMs < MAX_WAIT_MS) return undefined;
    if (this.#inTurn) this.#inTurn = undefined;
    else this.#held.delete(this.#next);
    this.#next = (this.#next + 1) & 0xffff;
    // Only a further gap is awaited anew: the packets of one gap are lost together.
    if (packet && this.#held.size > 0 && !this.#held.has(this.#next)) this.#gapSinceMs = nowMs;
    return packet ?? 'lost';
  }

  /**
   * True if the packet that {@link take} has just returned as `lost` is too far before the next held one to be concealed.
   * @param durationSamples duration of each missing packet
   */
  isOver(durationSamples: number): boolean {
    if (this.#inTurn) return false;
    let missing = Infinity;
    for (const sequenceNumber of this.#held.keys()) {
      missing = Math.min(missing, sequenceDelta(this.#next!, sequenceNumber));
    }
    return missing > 0 && (missing + 1) * durationSamples > MAX_CONCEALED_SAMPLES;
  }

  #has(sequenceNumber: number): boolean {
    return this.#inTurn?.sequenceNumber === sequenceNumber || this.#held.has(sequenceNumber);
  }

  /** Forgets the stream; the next packet begins a new one. */
  clear(): void {
    this.#inTurn = undefined;
    this.#held.clear();
    this.#next = undefined;
  }
}
