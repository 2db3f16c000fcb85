import { SAMPLES_PER_MS } from '../../rtp/clock-rate.ts';
import { timestampDelta } from '../../rtp/sequence.ts';
import { FRAME_SAMPLES } from '../format.ts';

/** Length of sound after which a decoder that began in the middle of a stream is accurate. */
const UNKNOWN_SAMPLES = 6 * FRAME_SAMPLES;

/** Beginning of a stream after an unmute, of which decoders must be given some before it is heard. Pure. */
export class UnmutedBeginning {
  /** Time of the unmute, ms; undefined once decoders have been given enough. */
  #unmutedAtMs: number | undefined;
  /** Timestamp of the stream at the unmute; undefined until a packet has arrived. */
  #unknownFrom: number | undefined;

  /** @param isNew true if the stream begins with the next packet */
  unmute(isNew: boolean, nowMs: number): void {
    this.#unmutedAtMs = isNew ? undefined : nowMs;
    this.#unknownFrom = undefined;
  }

  /** True for the first packets after an unmute. The time of the stream counts, not its packets: in a pause few come (DTX). */
  has(timestamp: number, nowMs: number): boolean {
    if (this.#unmutedAtMs === undefined) return false;
    const sinceMs = Math.min(nowMs - this.#unmutedAtMs, UNKNOWN_SAMPLES / SAMPLES_PER_MS);
    this.#unknownFrom ??= (timestamp - Math.round(sinceMs * SAMPLES_PER_MS)) >>> 0;
    const isUnknown = Math.abs(timestampDelta(this.#unknownFrom, timestamp)) < UNKNOWN_SAMPLES;
    if (!isUnknown) this.#unmutedAtMs = undefined;
    return isUnknown;
  }
}
