import { SAMPLES_PER_MS } from '../../rtp/clock-rate.ts';
import type { Pace } from '../../rtp/jitter-buffer.ts';
import { timestampDelta } from '../../rtp/sequence.ts';
import { FRAME_MS } from '../format.ts';

/** Number of packets that tell when those of a speaker come: more than one message of 120 ms holds. */
const KEPT = 8;
/** Packets that are older than the last one by more, ms, tell nothing of what comes next. */
const MAX_PACE_AGE_MS = 500;
/** Jump of the delay, either way, that no network causes: the sender's clock has changed. */
const MAX_LATER_MS = 2000;

type Arrival = { timestamp: number; atMs: number };

/** When the last packets of a speaker came: modulo 20 ms, because a tick is best right after them, and by their timestamps. Pure. */
export class Arrivals {
  readonly #kept: Arrival[] = [];
  #next = 0;

  add(timestamp: number, atMs: number): void {
    this.#kept[this.#next] = { timestamp, atMs };
    this.#next = (this.#next + 1) % KEPT;
  }

  /** How long the last packets wait for a tick at a moment at least, modulo 20 ms; undefined before the first packet. */
  waitMs(tickMs: number): number | undefined {
    if (this.#kept.length === 0) return undefined;
    return this.#kept.reduce((least, { atMs }) => Math.min(least, modulo(tickMs - atMs)), FRAME_MS);
  }

  /** When the last packet came. */
  get lastMs(): number | undefined {
    return this.#last?.atMs;
  }

  /** The pace of the last packets, as of a client that sends six in one message; undefined before the first packet. */
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

/** Time before a tick at which a packet should arrive, so that later ones of the same speaker are in time too. */
const IN_TIME_MS = 6;
/** Number of ticks from one look at the arrivals to the next. */
const LOOK_TICKS = 25;
/** Gain for which ticks come sooner, ms. */
const LEAST_GAIN_MS = 4;

/** Speakers of a room, by when their packets come. */
type Arriving = Iterable<{ arrivals: Arrivals }>;

/** Finds the moment of the 20 ms at which a room is best mixed. Pure. */
export class TickMoment {
  #ticksToLook = LOOK_TICKS;

  /** Returns a moment after which a tick is best for those who begin; undefined if none has sent anything. */
  of(speakers: Arriving): number | undefined {
    const bestMs = bestMomentMs([...speakers].flatMap(({ arrivals }) => arrivals.lastMs ?? []));
    return bestMs === undefined ? undefined : bestMs + IN_TIME_MS;
  }

  /** Returns an earlier moment for the ticks after one, if all packets wait longer than they need; looks now and then. */
  sooner(speakers: Arriving, tickMs: number): number | undefined {
    this.#ticksToLook -= 1;
    if (this.#ticksToLook > 0) return undefined;
    this.#ticksToLook = LOOK_TICKS;
    const waitsMs = [...speakers].map(({ arrivals }) => arrivals.waitMs(tickMs) ?? 0);
    const gainMs = Math.min(...waitsMs) - IN_TIME_MS;
    return waitsMs.length > 0 && gainMs >= LEAST_GAIN_MS ? tickMs - gainMs : undefined;
  }
}

/** Returns the moment of the 20 ms after which none of some packets waits long: the longest wait is as short as it can be. */
export function bestMomentMs(momentsMs: number[]): number | undefined {
  const longestWaitMs = (tickMs: number) =>
    momentsMs.reduce((most, atMs) => Math.max(most, modulo(tickMs - atMs)), 0);
  return momentsMs.toSorted((a, b) => longestWaitMs(a) - longestWaitMs(b))[0];
}

const modulo = (ms: number) => ((ms % FRAME_MS) + FRAME_MS) % FRAME_MS;
