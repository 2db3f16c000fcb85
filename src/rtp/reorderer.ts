import { SAMPLES_PER_MS } from './clock-rate.ts';
import type { MediaPacket } from './packet.ts';
import { sequenceDelta, timestampDelta } from './sequence.ts';

/** Time for which a missing packet is awaited after a later one has arrived. */
const MAX_WAIT_MS = 40;
/** Longest end of a gap that is concealed, samples: 80 ms. */
const MAX_CONCEALED_SAMPLES = 80 * SAMPLES_PER_MS;
/** Longest gap in a stream; a larger jump begins another stream. */
const MAX_JUMP_MS = 500;
/** Longest gap in the shortest packets, of 2.5 ms; a number further away is no gap, regardless of the timestamp. */
const MAX_LOST_PACKETS = MAX_JUMP_MS / 2.5;
/**
 * Largest gap in a pause of its sender, which then sends one packet every 400 ms (DTX): a few numbers are missing, and more time than packets
 * without a pause would take.
 */
const MAX_PAUSE_PACKETS = 25;
const MAX_PAUSE_MS = MAX_PAUSE_PACKETS * 400;
/** Largest distance by number at which an earlier packet belongs to the stream, however late it is; as in a `JitterBuffer`. */
const MAX_LATE_PACKETS = 1000;

/**
 * Reorders the packets of one stream without delaying any that is in order: only a gap makes later packets wait.
 * Pure: the caller passes the time.
 */
export class Reorderer {
  /** Next packet, while no other one waited when it came: nearly every packet, which needs no place among the held ones. */
  #inTurn: MediaPacket | undefined;
  readonly #held = new Map<number, MediaPacket>();
  #next: number | undefined;
  /** Latest timestamp of the stream. */
  #timestamp = 0;
  #gapSinceMs = 0;
  #streams = 0;

  /** Number of streams, from different encoders, that have begun. */
  get streams(): number {
    return this.#streams;
  }

  /** Next sequence number; undefined before the first packet. */
  get next(): number | undefined {
    return this.#next;
  }

  /** Packets that have not been taken. */
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
    // Browsers retransmit what an outage lost, after the first live packets. Other streams are
    // renumbered (`Splice`).
    if (ahead < 0 && ahead >= -MAX_LATE_PACKETS && laterSamples < 0) return false;
    const jumpMs = Math.abs(laterSamples) / SAMPLES_PER_MS;
    const isFar = jumpMs > MAX_JUMP_MS || Math.abs(ahead) > MAX_LOST_PACKETS;
    const isAfterPause =
      ahead > 0 && ahead <= MAX_PAUSE_PACKETS && laterSamples > 0 && jumpMs <= MAX_PAUSE_MS;
    // A packet is in order regardless of the length of its sender's pause.
    if (this.#next === undefined || (ahead !== 0 && isFar && !isAfterPause)) {
      this.#streams += 1;
      this.#inTurn = undefined;
      this.#held.clear();
      this.#next = sequenceNumber;
      this.#timestamp = timestamp;
    } else if (isFar && isAfterPause && this.#isEmpty) {
      // Missing packets were sent long before, and are not awaited.
      this.#next = sequenceNumber;
    } else if (ahead < 0 || this.#has(sequenceNumber)) {
      return false;
    }
    if (laterSamples > 0) this.#timestamp = timestamp;
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
    // Packets missing behind this gap have been missing for as long.
    if (packet && this.#held.size > 0 && !this.#held.has(this.#next)) this.#gapSinceMs = nowMs;
    return packet ?? 'lost';
  }

  /**
   * True for a lost packet at the beginning of a long gap: its time has passed, and listeners have heard a gap in its place.
   * @param durationSamples duration of each of them
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
