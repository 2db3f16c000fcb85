import { SAMPLES_PER_MS } from '../../rtp/clock-rate.ts';
import { timestampDelta } from '../../rtp/sequence.ts';
import { FRAME_SAMPLES } from '../format.ts';

/**
 * Audio after which a decoder that began in the middle of a stream is accurate enough to be heard, samples at 48 kHz: 120 ms. A
 * `PacketHistory` keeps 180 ms, which costs nobody anything; this audio is lost to the listeners.
 */
const WARM_UP_SAMPLES = 6 * FRAME_SAMPLES;
/** Audio of CELT after which that is so, samples: 60 ms. SILK predicts from farther back. */
const WARM_UP_CELT_SAMPLES = 3 * FRAME_SAMPLES;
/**
 * Maximum time between the unmute and the first packet that counts as audio of CELT, samples: at least 40 ms are decoded before it is heard,
 * unless nothing came for 120 ms.
 */
const MAX_BEFORE_CELT_SAMPLES = FRAME_SAMPLES;

/** Finds the first packets of a stream after an unmute, which only warm decoders up: listeners are not sent them. */
export class UnmutedBeginning {
  /** Time of the unmute, ms; undefined once decoders are warm. */
  #unmutedAtMs: number | undefined;
  /** Timestamp of the stream at the unmute; undefined until a packet has arrived. */
  #warmUpFrom: number | undefined;

  /** @param isNew true if the stream begins with the next packet */
  unmute(isNew: boolean, nowMs: number): void {
    this.#unmutedAtMs = isNew ? undefined : nowMs;
    this.#warmUpFrom = undefined;
  }

  /** Notes that packets of a stream that began before come here since a time, ms. If it was unmuted later, they come since then. */
  enter(sinceMs: number): void {
    this.unmute(false, Math.max(sinceMs, this.#unmutedAtMs ?? -Infinity));
  }

  /** Returns true for packets that only warm decoders up. The time of the stream counts, not its packets: in a pause few come (DTX). */
  isWarmUp(timestamp: number, isCelt: boolean, nowMs: number): boolean {
    if (this.#unmutedAtMs === undefined) return false;
    const [warmUpSamples, maxBeforeSamples] = isCelt
      ? [WARM_UP_CELT_SAMPLES, MAX_BEFORE_CELT_SAMPLES]
      : [WARM_UP_SAMPLES, WARM_UP_SAMPLES];
    const sinceSamples = Math.round((nowMs - this.#unmutedAtMs) * SAMPLES_PER_MS);
    // Packets might have come here for long enough: the stream begins after a pause.
    const isAfterPause = sinceSamples >= WARM_UP_SAMPLES;
    const beforeSamples = isAfterPause ? WARM_UP_SAMPLES : Math.min(sinceSamples, maxBeforeSamples);
    this.#warmUpFrom ??= (timestamp - beforeSamples) >>> 0;
    const isWarmUp = Math.abs(timestampDelta(this.#warmUpFrom, timestamp)) < warmUpSamples;
    if (!isWarmUp) this.#unmutedAtMs = undefined;
    return isWarmUp;
  }
}
