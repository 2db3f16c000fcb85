import { SAMPLES_PER_MS } from '../../rtp/clock-rate.ts';
import type { Pace } from '../../rtp/jitter-buffer.ts';
import { timestampDelta } from '../../rtp/sequence.ts';
import { FRAME_MS } from '../format.ts';

/** Number of packets from which the arrival pattern of a speaker is derived: more than one message of 120 ms holds. */
const KEPT = 8;
/** Share by which each packet that is not late lowers the lateness of a speaker: it halves in 2 s. */
const DECAY = 1 / 128;
/** Maximum age of a packet against the last one, ms; older packets do not predict the next. */
const MAX_PACE_AGE_MS = 500;
/** Jump of the delay, either way, that no network causes, ms: the sender's clock has changed. */
const MAX_LATER_MS = 2000;

type Arrival = { timestamp: number; atMs: number };

/** Arrival times of the last packets of a speaker: modulo 20 ms, because a tick is best right after them, and against their timestamps. Pure. */
export class Arrivals {
  readonly #kept: Arrival[] = [];
  #next = 0;
  /** Lateness against the quickest of the last packets, ms: rises at once, and falls slowly. */
  #lateMs = 0;

  add(timestamp: number, atMs: number): void {
    this.#kept[this.#next] = { timestamp, atMs };
    this.#next = (this.#next + 1) % KEPT;
    const lateMs = -(this.pace?.quickestMs ?? 0);
    this.#lateMs = lateMs > this.#lateMs ? lateMs : this.#lateMs + (lateMs - this.#lateMs) * DECAY;
  }

  /** Returns the least time for which the last packets wait for a tick at `tickMs`, ms modulo 20 ms; undefined before the first packet. */
  waitMs(tickMs: number): number | undefined {
    if (this.#kept.length === 0) return undefined;
    return this.#kept.reduce((least, { atMs }) => Math.min(least, modulo(tickMs - atMs)), FRAME_MS);
  }

  /** Arrival time of the last packet, ms. */
  get lastMs(): number | undefined {
    return this.#last?.atMs;
  }

  /** Arrival time of the last packet, ms, if it had been as late as the latest of the last seconds; undefined of a speaker with jitter. */
  get slowestMs(): number | undefined {
    const { pace } = this;
    if (!pace || this.#lateMs > STEADY_MS) return undefined;
    return pace.atMs + pace.quickestMs + this.#lateMs;
  }

  /** Arrival pattern of the last packets, also of a client that sends six in one message; undefined before the first packet. */
  get pace(): Pace | undefined {
    const last = this.#last;
    if (!last) return undefined;
    let [quickestMs, slowestMs] = [0, 0];
    for (const { timestamp, atMs } of this.#kept) {
      if (last.atMs - atMs > MAX_PACE_AGE_MS) continue;
      const laterMs = atMs - last.atMs - timestampDelta(last.timestamp, timestamp) / SAMPLES_PER_MS;
      if (Math.abs(laterMs) > MAX_LATER_MS) continue;
      quickestMs = Math.min(quickestMs, laterMs);
      slowestMs = Math.max(slowestMs, laterMs);
    }
    return { ...last, quickestMs, lateMs: slowestMs - quickestMs };
  }

  get #last(): Arrival | undefined {
    return this.#kept[(this.#next + KEPT - 1) % KEPT];
  }
}

/** Time before a tick at which a packet should arrive, ms, so that later packets of the same speaker are in time, too. */
const IN_TIME_MS = 4;
/** Slack with which a packet is still in time, ms; a packet with less is played a tick later. */
const LEAST_WAIT_MS = 3;
/** Lateness up to which a speaker counts as steady, ms. The packets of others come at no particular moment of the 20 ms. */
const STEADY_MS = 8;
/** Number of ticks between two checks of the arrivals. */
const LOOK_TICKS = 25;
/** Minimum gain for which ticks come sooner, ms, and for which they come later, which delays one frame of the mix. */
const LEAST_GAIN_MS = 4;
const LEAST_GAIN_LATER_MS = 6;

/** Speakers of a room, with the arrivals of their packets. */
type Arriving = Iterable<{ arrivals: Arrivals }>;

/** New moment of the ticks of a room. */
export type TickMove = { dueMs: number; isLater: boolean };

/** Finds the moment within the 20 ms at which a room is best mixed. Pure. */
export class TickMoment {
  #ticksToLook = LOOK_TICKS;
  #lastTickMs: number | undefined;

  /** Returns the time by which ticks come later since the last one, ms; negative if they come sooner, 0 after ticks that were left out. */
  movedMs(tickMs: number): number {
    const movedMs = tickMs - (this.#lastTickMs ?? tickMs - FRAME_MS) - FRAME_MS;
    this.#lastTickMs = tickMs;
    return Math.abs(movedMs) < FRAME_MS ? movedMs : 0;
  }

  /** Returns the moment after which a tick is best for speakers that begin; undefined if none has sent a packet. */
  of(speakers: Arriving): number | undefined {
    const bestMs = bestMomentMs([...speakers].flatMap(({ arrivals }) => arrivals.lastMs ?? []));
    return bestMs === undefined ? undefined : bestMs + IN_TIME_MS;
  }

  /**
   * Returns a better moment for the next ticks, if packets wait longer than necessary; checks every 25 ticks. Ticks come later only if a
   * packet would be missed for ticks that come sooner.
   */
  better(speakers: Arriving, tickMs: number): TickMove | undefined {
    this.#ticksToLook -= 1;
    if (this.#ticksToLook > 0) return undefined;
    this.#ticksToLook = LOOK_TICKS;
    const all = [...speakers].map(({ arrivals }) => arrivals);
    const slowestMs = all.flatMap((arrivals) => arrivals.slowestMs ?? []);
    const bestMs = bestMomentMs(slowestMs);
    if (bestMs === undefined) return undefined;
    const dueMs = bestMs + IN_TIME_MS;
    const inTimeMs = (atMs: number) => longestWaitMs(slowestMs, atMs - LEAST_WAIT_MS);
    const gainMs = inTimeMs(tickMs) - inTimeMs(dueMs);
    const soonerMs = modulo(tickMs - dueMs);
    const isLater = all.some(
      (arrivals) => (arrivals.waitMs(tickMs) ?? 0) < soonerMs + LEAST_WAIT_MS,
    );
    if (gainMs < (isLater ? LEAST_GAIN_LATER_MS : LEAST_GAIN_MS)) return undefined;
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
