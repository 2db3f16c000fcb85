import { SAMPLES_PER_MS } from '../../rtp/clock-rate.ts';
import type { Pace } from '../../rtp/jitter-buffer.ts';
import { timestampDelta } from '../../rtp/sequence.ts';
import { FRAME_MS } from '../format.ts';
import { FrameSource, LEFT_OUT_EVERY_MS } from './listener-leads.ts';
import type { PastPacket } from './past-packet.ts';

/** Number of packets over which the moments of arrival are compared: those of 2 s, if a packet has 20 ms. */
const KEPT = 100;
/** Maximum age of a packet relative to the last one, ms: older packets predict neither the pace nor the moment of the next one. */
const MAX_PACE_AGE_MS = 500;
const MAX_MOMENT_AGE_MS = 2500;
/**
 * Maximum difference of two delays that count as the same, ms: half a packet. Messages that last no multiple of 20 ms, such as 85 ms of a
 * ScriptProcessor, end at different places within a packet.
 */
const ALIKE_MS = FRAME_MS / 2;
/** Jump of the delay, in either direction, that means that the sender's clock has changed, ms: no network causes it. */
const MAX_LATER_MS = 2000;

/** Moments of the packets of one speaker while they are sorted. */
const MOMENTS_MS = new Float64Array(KEPT);

/** Arrival times of the last packets of a speaker: modulo 20 ms, because a tick is best right after them, and against their timestamps. Pure. */
export class Arrivals {
  readonly #timestamps = new Float64Array(KEPT);
  readonly #timesMs = new Float64Array(KEPT);
  #count = 0;

  add(timestamp: number, atMs: number): void {
    this.#timestamps[this.#count % KEPT] = timestamp;
    this.#timesMs[this.#count % KEPT] = atMs;
    this.#count += 1;
  }

  /** Arrival time of the last packet, ms. */
  get lastMs(): number | undefined {
    return this.#count > 0 ? this.#at(0).atMs : undefined;
  }

  /**
   * Moment within the 20 ms after which none of the packets of the last 2 s came, ms; undefined before the first packet, and of a speaker with
   * jitter, whose packets come at no particular moment.
   */
  get latestMomentMs(): number | undefined {
    const { lastMs } = this;
    if (lastMs === undefined) return undefined;
    let recent = 0;
    for (let i = 0; i < Math.min(this.#count, KEPT); i += 1) {
      const atMs = this.#timesMs[i]!;
      if (lastMs - atMs > MAX_MOMENT_AGE_MS) continue;
      MOMENTS_MS[recent] = modulo(atMs);
      recent += 1;
    }
    const momentsMs = MOMENTS_MS.subarray(0, recent).toSorted();
    // The longest pause on the circle of 20 ms is before the earliest moment; the latest one is
    // before that pause.
    let [latestMs, pauseMs] = [momentsMs.at(-1)!, momentsMs[0]! + FRAME_MS - momentsMs.at(-1)!];
    for (let i = 1; i < momentsMs.length; i += 1) {
      const beforeMs = momentsMs[i]! - momentsMs[i - 1]!;
      if (beforeMs > pauseMs) [latestMs, pauseMs] = [momentsMs[i - 1]!, beforeMs];
    }
    return FRAME_MS - pauseMs <= STEADY_MS ? latestMs : undefined;
  }

  /**
   * Arrival pattern of the packets of the last half second, also of a client that sends six in one message; undefined before the first
   * packet.
   */
  get pace(): Pace | undefined {
    if (this.#count === 0) return undefined;
    const last = this.#at(0);
    let [quickestMs, slowestMs] = [0, -Infinity];
    const slowestOfMessagesMs: number[] = [];
    for (let back = 0; back < Math.min(this.#count, KEPT); back += 1) {
      const { timestamp, atMs } = this.#at(back);
      if (last.atMs - atMs > MAX_PACE_AGE_MS) break;
      const laterMs = atMs - last.atMs - timestampDelta(last.timestamp, timestamp) / SAMPLES_PER_MS;
      if (Math.abs(laterMs) > MAX_LATER_MS) continue;
      quickestMs = Math.min(quickestMs, laterMs);
      slowestMs = Math.max(slowestMs, laterMs);
      if (this.#comesWithBefore(back)) continue;
      slowestOfMessagesMs.push(slowestMs);
      slowestMs = -Infinity;
    }
    if (slowestMs > -Infinity) slowestOfMessagesMs.push(slowestMs);
    return { ...last, quickestMs, lateMs: recurring(slowestOfMessagesMs) - quickestMs };
  }

  /** True if a packet is of the same message as the one before it, or of the same burst after a stall: it came in less than half its time. */
  #comesWithBefore(back: number): boolean {
    if (back + 1 >= Math.min(this.#count, KEPT)) return false;
    const [before, packet] = [this.#at(back + 1), this.#at(back)];
    const mediaMs = timestampDelta(before.timestamp, packet.timestamp) / SAMPLES_PER_MS;
    return packet.atMs - before.atMs < mediaMs / 2;
  }

  /** Returns the packet that came `back` packets before the last one. */
  #at(back: number): { timestamp: number; atMs: number } {
    const index = (this.#count - 1 - back) % KEPT;
    return { timestamp: this.#timestamps[index]!, atMs: this.#timesMs[index]! };
  }
}

/**
 * Returns the longest delay that recurs, ms: one stall of the network, or one packet that was sent again, tells nothing about the next word.
 * The delay of a message that is the only one counts.
 */
function recurring(delaysMs: number[]): number {
  const [longestMs = 0, nextMs = longestMs] = delaysMs.toSorted((a, b) => b - a);
  return longestMs - nextMs <= ALIKE_MS ? longestMs : nextMs;
}

/** Time after the last lost packet for which its sender's network counts as lossy. */
const LOSSY_MS = 5000;
/**
 * Maximum duration that a listener may still have to play when it is sent a packet, ms: as much as another node sends at once at the
 * beginning of a stream (`readyWithinMs`).
 */
const MAX_AHEAD_MS = 400;
/** Duration that it may still have to play, ms, when it is sent packets again after one was too early. */
const MAX_AHEAD_AGAIN_MS = 360;

/** Judges whether the packets of one speaker can be sent as they come: none of them lost, or too early. Pure. */
export class Punctuality {
  /** Packets, and frames of a mix in their place, that a listener is sent which hears the speaker apart. */
  readonly queue = new FrameSource();
  /** True for packets that come from a pacer of this node: what it hands on at once, at the end of bursts, is meant to be heard. */
  isPaced = false;
  /** Time at which a copy last replaced a lost packet. */
  #copiedAtMs = -Infinity;
  /** True from a packet that was too early until listeners have little to play again. */
  #isAhead = false;
  #leftOutAtMs = -Infinity;

  /** Notes that packets get lost and later ones carry copies (in-band FEC), which a mix can play and forwarding cannot. */
  noteCopy(nowMs: number): void {
    this.#copiedAtMs = nowMs;
  }

  /** True if a packet that comes now cannot be sent: listeners have too much to play. */
  isEarly(nowMs: number): boolean {
    return !this.isPaced && this.#aheadMs(nowMs) > MAX_AHEAD_MS;
  }

  /** Notes a packet that has come. */
  noteArrival(nowMs: number): void {
    this.#isAhead ||= this.isEarly(nowMs);
  }

  /** Returns whether the speaker is to be heard in mixes only. */
  needsMix(nowMs: number): boolean {
    this.#isAhead &&= this.#aheadMs(nowMs) > MAX_AHEAD_AGAIN_MS;
    return this.#isAhead || nowMs - this.#copiedAtMs < LOSSY_MS;
  }

  /** Takes a packet that can be sent; false if it is left out of a pause, so that listeners have less to play. */
  take({ durationSamples, isSpare }: PastPacket, nowMs: number): boolean {
    const isAhead = this.queue.leastAheadMs >= durationSamples / SAMPLES_PER_MS;
    if (isSpare && isAhead && nowMs - this.#leftOutAtMs >= LEFT_OUT_EVERY_MS) {
      this.#leftOutAtMs = nowMs;
      return false;
    }
    this.queue.add(durationSamples, nowMs);
    return true;
  }

  #aheadMs(nowMs: number): number {
    return this.queue.endsAtMs - nowMs;
  }
}

/** Time before a tick at which the latest packet of a speaker should arrive, ms, so that later ones are in time, too. */
const IN_TIME_MS = 5;
/** Slack with which a packet is still in time, ms; a packet with less is played a tick later. */
const LEAST_WAIT_MS = 3;
/** Part of the 20 ms within which all packets of a steady speaker arrive, ms. */
const STEADY_MS = 8;
/** Number of ticks between two checks of the arrivals. */
const LOOK_TICKS = 25;
/** Minimum gain for which ticks come sooner, ms, and for which they come later, which delays one frame of the mix. */
const LEAST_GAIN_MS = 4;
const LEAST_GAIN_LATER_MS = 6;
/** Number of checks from one move to a later moment to the next: frames of the mix are seldom delayed. */
const LATER_EVERY_LOOKS = 10;

/** Speakers of a room, with the arrivals of their packets. */
type Arriving = Iterable<{ arrivals: Arrivals }>;

/** New moment of the ticks of a room. */
export type TickMove = { dueMs: number; isLater: boolean };

/** Finds the moment within the 20 ms at which a room is best mixed. Pure. */
export class TickMoment {
  #ticksToLook = LOOK_TICKS;
  #looksToLater = 0;
  #lastTickMs: number | undefined;

  /**
   * Notes a tick.
   * @returns the change of the phase of ticks since the previous one, ms; negative if they come earlier, 0 after ticks that were left
   * out
   */
  noteTick(tickMs: number): number {
    const movedMs = tickMs - (this.#lastTickMs ?? tickMs - FRAME_MS) - FRAME_MS;
    this.#lastTickMs = tickMs;
    return Math.abs(movedMs) < FRAME_MS ? movedMs : 0;
  }

  /** Returns the moment after which a tick is best for speakers that begin; undefined if none has sent a packet. */
  of(speakers: Arriving): number | undefined {
    const momentsMs = [...speakers].flatMap(
      ({ arrivals }) => arrivals.latestMomentMs ?? arrivals.lastMs ?? [],
    );
    const bestMs = bestMomentMs(momentsMs);
    return bestMs === undefined ? undefined : bestMs + IN_TIME_MS;
  }

  /**
   * Returns a better moment for the next ticks, if packets of steady speakers wait longer than necessary; checks every 25 ticks. Ticks come
   * later only if a packet would be missed for ticks that come sooner.
   */
  better(speakers: Arriving, tickMs: number): TickMove | undefined {
    this.#ticksToLook -= 1;
    if (this.#ticksToLook > 0) return undefined;
    this.#ticksToLook = LOOK_TICKS;
    this.#looksToLater -= 1;
    const latestMs = [...speakers].flatMap(({ arrivals }) => arrivals.latestMomentMs ?? []);
    const bestMs = bestMomentMs(latestMs);
    if (bestMs === undefined) return undefined;
    const dueMs = bestMs + IN_TIME_MS;
    const inTimeMs = (atMs: number) => longestWaitMs(latestMs, atMs - LEAST_WAIT_MS);
    const gainMs = inTimeMs(tickMs) - inTimeMs(dueMs);
    const soonerMs = modulo(tickMs - dueMs);
    const isLater = latestMs.some((atMs) => modulo(tickMs - atMs) < soonerMs + LEAST_WAIT_MS);
    if (gainMs < (isLater ? LEAST_GAIN_LATER_MS : LEAST_GAIN_MS)) return undefined;
    if (isLater && this.#looksToLater > 0) return undefined;
    if (isLater) this.#looksToLater = LATER_EVERY_LOOKS;
    return { dueMs, isLater };
  }
}

/** Returns the longest time for which any packet waits for a moment, ms modulo 20 ms. */
const longestWaitMs = (momentsMs: number[], dueMs: number): number =>
  momentsMs.reduce((most, atMs) => Math.max(most, modulo(dueMs - atMs)), 0);

/** Returns the moment within the 20 ms that minimizes the longest wait of any packet. */
export function bestMomentMs(momentsMs: number[]): number | undefined {
  const longestMs = (atMs: number) => longestWaitMs(momentsMs, atMs);
  return momentsMs.toSorted((a, b) => longestMs(a) - longestMs(b))[0];
}

const modulo = (ms: number) => ((ms % FRAME_MS) + FRAME_MS) % FRAME_MS;
