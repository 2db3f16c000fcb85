import { SAMPLES_PER_MS } from './clock-rate.ts';
import type { MediaPacket } from './packet.ts';
import { sequenceDelta, timestampDelta } from './sequence.ts';

/** Window over which the quickest packet counts as the delay of the path, ms; two windows, so one is always full. */
const FASTEST_WINDOW_MS = 2000;
/** Maximum slack of the latest packets of a sender with jitter when playback begins, ms. */
const SLACK_MS = 3;

/** Share by which each packet that is not late lowers the estimate: a bad spell is forgotten in a few seconds. */
const DECAY = 1 / 128;

/** Jump of the delay between two packets, either way, that no network causes, ms: the sender's clock has changed. */
const MAX_LATER_MS = 2000;

/**
 * Audio that may come at once at the beginning of a stream, ms: what another node holds until this one is ready (`readyWithinMs`). It is
 * held beyond the limit, until playback has caught up: what would be dropped is the first word.
 */
const MAX_FIRST_MS = 400;

/** Bounds of {@link JitterBuffer.targetMs}. The greater one is the capacity, once playback has caught up with the beginning. */
export type JitterBufferLimits = { minMs: number; maxMs: number };

/** Arrival pattern of the last packets of a stream, before those that are held. */
export type Pace = {
  /** Timestamp of the last packet, and its arrival time, ms. */
  timestamp: number;
  atMs: number;
  /** Delay of the quickest packet relative to the last one, ms: 0 or less. */
  quickestMs: number;
  /** Longest delay that recurs, relative to the quickest packet, ms. */
  lateMs: number;
};

/** A packet without its stream. */
export type StreamPacket = Pick<MediaPacket, 'sequenceNumber' | 'timestamp' | 'payload'>;

/** Held part of a packet. */
export type Held = {
  sequenceNumber: number;
  timestamp: number;
  payload: Buffer;
  durationSamples: number;
  /** Arrival time. */
  atMs: number;
  /** Lateness against the quickest packet of the last seconds. */
  lateMs: number;
  /** True if it was held when playback began, and was not the last to arrive: how long it waits tells nothing about those that follow. */
  isOfBurst: boolean;
};

/**
 * Reorders the packets of one stream and holds them just long enough for late ones to arrive. Pure: the caller
 * passes the time, and takes packets at the pace of playback.
 */
export class JitterBuffer {
  readonly #limits: JitterBufferLimits;
  readonly #held = new Map<number, Held>();
  #heldSamples = 0;
  #next: number | undefined;
  #isBuffering = true;
  #hasRunDry = false;
  /** Audio that is held beyond the limit, ms, for {@link MAX_FIRST_MS}. */
  #extraMs = MAX_FIRST_MS;
  /** Arrival time of the first packet if it had not been late. */
  #firstAtMs: number | undefined;
  #lateMs = 0;
  /** Lateness of the packet that arrived last, ms. */
  #lastLateMs = 0;
  /** Packet that arrived last, and its delay relative to the first, ms. */
  #last: { timestamp: number; atMs: number; transitMs: number } | undefined;
  #fastestMs = [Infinity, Infinity];
  #windowEndsMs = 0;
  /** Number of packets that arrived too late, twice, or beyond the capacity. */
  droppedPackets = 0;

  /** @param pace arrival pattern of the stream until now, if known */
  constructor(limits: JitterBufferLimits, pace?: Pace) {
    this.#limits = limits;
    if (!pace) return;
    const { timestamp, atMs, quickestMs, lateMs } = pace;
    this.#last = { timestamp, atMs, transitMs: 0 };
    this.#lateMs = lateMs;
    this.#fastestMs = [Infinity, quickestMs];
  }

  get depthMs(): number {
    return this.#heldSamples / SAMPLES_PER_MS;
  }

  /**
   * Time for which {@link isReady} wants packets to be held, ms: {@link targetMs}, and a slack for a sender with jitter, because later ones
   * may be a little later still.
   */
  get #readyMs(): number {
    return this.targetMs + Math.min(this.targetMs - this.#limits.minMs, SLACK_MS);
  }

  /** Lateness that later packets may have, ms: {@link take} holds the first packet for it. */
  get targetMs(): number {
    const { minMs, maxMs } = this.#limits;
    return Math.min(maxMs, Math.max(minMs, this.#lateMs));
  }

  /** Begins with this packet: earlier ones have been heard already. */
  startAt(sequenceNumber: number): void {
    this.clear();
    this.#next = sequenceNumber;
  }

  /**
   * Adds a packet, unless it came too late or twice; drops the oldest packets beyond the capacity.
   * @param durationSamples duration of the payload, samples at 48 kHz
   */
  insert(packet: StreamPacket, durationSamples: number, nowMs: number): void {
    const lateMs = this.#measure(packet.timestamp, nowMs);
    this.#lastLateMs = lateMs;
    const { sequenceNumber, timestamp, payload } = packet;
    if (this.#next !== undefined) {
      const ahead = sequenceDelta(this.#next, sequenceNumber);
      if (Math.abs(ahead) > 1000) {
        this.clear();
      } else if (ahead < 0) {
        this.droppedPackets += 1;
        return;
      }
    }
    if (this.#held.has(sequenceNumber)) {
      this.droppedPackets += 1;
      return;
    }
    this.#next ??= sequenceNumber;
    this.#firstAtMs ??= nowMs - lateMs;
    const isOfBurst = false;
    const held = {
      sequenceNumber,
      timestamp,
      payload,
      durationSamples,
      atMs: nowMs,
      lateMs,
      isOfBurst,
    };
    this.#held.set(sequenceNumber, held);
    this.#heldSamples += durationSamples;
    // In whole packets: one of 120 ms alone must not fill the buffer.
    const packetMs = durationSamples / SAMPLES_PER_MS;
    const mostMs = Math.ceil((this.#limits.maxMs + this.#extraMs) / packetMs) * packetMs;
    while (this.depthMs > mostMs) if (this.#release()) this.droppedPackets += 1;
  }

  /**
   * Returns the next packet to play; `lost` if it is missing while later ones have arrived; `empty` if there is nothing to play
   * now: before the first packet was held long enough, and after the stream has run dry.
   * @param hasCopies true if packets carry copies of those before them: after the stream has run dry the last missing one is `lost`,
   * to be played from its copy, while those before it are skipped, as their time has passed
   */
  take(nowMs: number, hasCopies = false): Held | 'lost' | 'empty' {
    if (this.#isBuffering) {
      const heldMs = nowMs - (this.#firstAtMs ?? nowMs);
      if (this.#held.size === 0 || (heldMs < this.targetMs && !this.#isInTimeAgain)) return 'empty';
      this.#isBuffering = false;
      if (this.#extraMs === MAX_FIRST_MS) this.#noteBurst();
      // The time of packets missing at the start has already passed.
      while (!this.#held.has(this.#next!)) {
        const after = (this.#next! + 1) & 0xffff;
        if (hasCopies && this.#held.has(after)) break;
        this.#next = after;
      }
    }
    if (this.#held.size === 0) {
      this.#isBuffering = true;
      this.#hasRunDry = true;
      this.#firstAtMs = undefined;
      return 'empty';
    }
    const next = this.#release() ?? 'lost';
    this.#extraMs = Math.min(this.#extraMs, this.depthMs);
    return next;
  }

  /** Marks the packets that came before playback began, but for the last one. */
  #noteBurst(): void {
    const held = [...this.#held.values()];
    for (const packet of held.slice(0, -1)) packet.isOfBurst = true;
  }

  /**
   * Returns true if `samples` samples can be played from now on: they have arrived, and the last packet of them has been
   * held for {@link targetMs} and the slack, so that later packets may be late.
   */
  isReady(samples: number, nowMs: number): boolean {
    let restSamples = samples;
    let at = this.#next ?? 0;
    for (;;) {
      const held = this.#held.get(at);
      if (!held) return false;
      restSamples -= held.durationSamples;
      if (restSamples <= 0) return nowMs - held.atMs + held.lateMs >= this.#readyMs;
      at = (at + 1) & 0xffff;
    }
  }

  /** True if packets arrive in time after the stream has run dry: one was lost, and none is late. */
  get #isInTimeAgain(): boolean {
    return this.#hasRunDry && this.#held.size > 1 && this.#lastLateMs <= this.#limits.minMs;
  }

  /** Drops all held packets; the next packet begins a new stream. */
  clear(): void {
    this.#hasRunDry = false;
    this.#extraMs = MAX_FIRST_MS;
    this.#held.clear();
    this.#heldSamples = 0;
    this.#next = undefined;
    this.#firstAtMs = undefined;
    this.#isBuffering = true;
  }

  /** Returns the packet after a lost one, which may carry a copy of it (RFC 6716 §2.1.7). */
  peek(): Buffer | undefined {
    return this.#next === undefined ? undefined : this.#held.get(this.#next)?.payload;
  }

  #release(): Held | undefined {
    const sequenceNumber = this.#next ?? 0;
    const held = this.#held.get(sequenceNumber);
    this.#next = (sequenceNumber + 1) & 0xffff;
    if (held) {
      this.#held.delete(sequenceNumber);
      this.#heldSamples -= held.durationSamples;
    }
    return held;
  }

  /**
   * Tracks the lateness of packets: upward at once, downward slowly.
   * @returns the lateness of this packet against the quickest of the last seconds
   */
  #measure(timestamp: number, nowMs: number): number {
    // Differences are taken from packet to packet: against the first one the timestamp would wrap
    // after half a day.
    const last = this.#last ?? { timestamp, atMs: nowMs, transitMs: 0 };
    const mediaMs = timestampDelta(last.timestamp, timestamp) / SAMPLES_PER_MS;
    const laterMs = nowMs - last.atMs - mediaMs;
    const transitMs = last.transitMs + (Math.abs(laterMs) > MAX_LATER_MS ? 0 : laterMs);
    this.#last = { timestamp, atMs: nowMs, transitMs };
    if (nowMs >= this.#windowEndsMs) {
      this.#fastestMs = [this.#fastestMs[1] ?? Infinity, Infinity];
      this.#windowEndsMs = nowMs + FASTEST_WINDOW_MS;
    }
    this.#fastestMs[1] = Math.min(this.#fastestMs[1]!, transitMs);
    const lateMs = transitMs - Math.min(this.#fastestMs[0]!, this.#fastestMs[1]);
    this.#lateMs = lateMs > this.#lateMs ? lateMs : this.#lateMs + (lateMs - this.#lateMs) * DECAY;
    return lateMs;
  }
}
