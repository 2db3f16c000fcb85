import { SAMPLES_PER_MS } from '../../rtp/clock-rate.ts';
import type { Pace } from '../../rtp/jitter-buffer.ts';
import { timestampDelta } from '../../rtp/sequence.ts';
import { FRAME_MS } from '../format.ts';

/** Number of packets from which the arrival pattern of a speaker is derived: more than one message of 120 ms holds. */
const KEPT = 8;
/** Maximum age of a packet against the last one, ms; older packets do not predict the next. */
const MAX_PACE_AGE_MS = 500;
/** Jump of the delay, either way, that no network causes, ms: the sender's clock has changed. */
const MAX_LATER_MS = 2000;

type Arrival = { timestamp: number; atMs: number };

/** Arrival times of the last packets of a speaker: modulo 20 ms, because a tick is best right after them, and against their timestamps. Pure. */
export class Arrivals {
  readonly #kept: Arrival[] = [];
  #next = 0;

  add(timestamp: number, atMs: number): void {
    this.#kept[this.#next] = { timestamp, atMs };
    this.#next = (this.#next + 1) % KEPT;
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
const IN_TIME_MS = 6;
/** Number of ticks between two checks of the arrivals. */
const LOOK_TICKS = 25;
/** Minimum gain for which ticks are moved earlier, ms. */
const LEAST_GAIN_MS = 4;

/** Speakers of a room, with the arrivals of their packets. */
type Arriving = Iterable<{ arrivals: Arrivals }>;

/** Finds the moment within the 20 ms at which a room is best mixed. Pure. */
export class TickMoment {
  #ticksToLook = LOOK_TICKS;

  /** Returns the moment after which a tick is best for speakers that begin; undefined if none has sent a packet. */
  of(speakers: Arriving): number | undefined {
    const bestMs = bestMomentMs([...speakers].flatMap(({ arrivals }) => arrivals.lastMs ?? []));
    return bestMs === undefined ? undefined : bestMs + IN_TIME_MS;
  }

  /** Returns an earlier moment for the next ticks if all packets wait longer than necessary; checks every 25 ticks. */
  sooner(speakers: Arriving, tickMs: number): number | undefined {
    this.#ticksToLook -= 1;
    if (this.#ticksToLook > 0) return undefined;
    this.#ticksToLook = LOOK_TICKS;
    const waitsMs = [...speakers].map(({ arrivals }) => arrivals.waitMs(tickMs) ?? 0);
    const gainMs = Math.min(...waitsMs) - IN_TIME_MS;
    return waitsMs.length > 0 && gainMs >= LEAST_GAIN_MS ? tickMs - gainMs : undefined;
  }
}

/** Returns the moment within the 20 ms that minimizes the longest wait of any packet. */
export function bestMomentMs(momentsMs: number[]): number | undefined {
  const longestWaitMs = (tickMs: number) =>
    momentsMs.reduce((most, atMs) => Math.max(most, modulo(tickMs - atMs)), 0);
  return momentsMs.toSorted((a, b) => longestWaitMs(a) - longestWaitMs(b))[0];
}

const modulo = (ms: number) => ((ms % FRAME_MS) + FRAME_MS) % FRAME_MS;
