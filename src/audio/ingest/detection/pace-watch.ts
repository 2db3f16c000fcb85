import type { PaceHistory } from './pace-history.ts';
import type { Pace } from './pace.ts';
import { fit, type Fit, type PacePoint } from './pace-fit.ts';

/** Spans over which a pace is compared with that of the format, ms; the last is for networks on which the others show nothing. */
const SPANS_MS = [640, 820, 1020, 4000] as const;
/** Share of a span that its points must cover. */
const LEAST_COVERED = 0.8;
/** Minimum ratio of two paces, either way, that the first span distinguishes. */
const LEAST_RATIO_AT_ONCE = 1.25;
/** Ratio above which a faster pace must also run ahead of all earlier audio. */
const LEAST_RATIO_AHEAD = 1.25;
/** Maximum number of points of a span: messages in between are added to the next point. */
const MAX_POINTS = 100;
/** Time between two comparisons, ms. */
const COMPARE_EVERY_MS = 40;
/** Time between two messages, as a share of their duration at the fastest pace, below which they arrived together. */
const TOGETHER = 0.5;
/** Maximum factor of the spans, which double after each change, because some networks are slow for a while. */
const MAX_FACTOR = 8;
/** Time before a span in which the least delay is searched, ms. */
const FLOOR_MS = 1000;
/** Time until the pace is judged again after the bytes have contradicted it, ms; longer each time, because some networks are never steady. */
const FIRST_CALM_MS = 250;
const MAX_CALM_MS = 10_000;
/** Minimum drift, as a share of a span, at which other paces are considered: half the difference of 44.1 and 48 kHz. */
const LEAST_DRIFT = 0.035;
/** Jitter: its initial and minimum value, the maximum that one message adds, ms, and the share of the last message (RFC 3550 §6.4.1). */
const LEAST_JITTER_MS = 4;
const MOST_LATE_MS = 40;
const JITTER_GAIN = 1 / 32;
/** Mean change of the time between two messages, in standard deviations of their delays: 0.8 times the root of 6. */
const DEVIATIONS_OF_CHANGE = 1.95;
/** Time over which the wander of a network is learnt, ms, and minimum ratio of a detected drift to the wander. */
const WANDER_MS = 10_000;
/** Maximum time that one comparison counts, ms: nothing is learnt in a pause. */
const MOST_COMPARED_MS = 4 * COMPARE_EVERY_MS;
const LEAST_ABOVE_WANDER = 3;
/** Maximum wander: a single stall must not count as wander. */
const MOST_WANDER = 0.15;
/** Minimum time by which a faster stream must be ahead of its previous least delay, ms: less may be audio that the network had held up. */
const LEAST_AHEAD_MS = 10;

/**
 * Detects that samples arrive at another pace than that of their format, as after a change of their rate. It compares the arrival
 * times of messages with those expected at the pace of the format and at the pace of each other rate: the drift between two paces
 * is 9 % of the time for 44.1 and 48 kHz, while jitter does not grow with time. Pure; takes some comparisons per
 * message.
 */
export class PaceWatch {
  readonly #bytesPerMs: number;
  readonly #ratios: readonly number[];
  /** Multiple of {@link SPANS_MS} over which paces are compared. */
  #factor = 1;
  readonly #together: number;
  /** Duration of all received audio at the pace of the format, ms. */
  #soundMs = 0;
  #points: PacePoint[] = [];
  #lastMs = -Infinity;
  /** Excess of the time between the last two messages over its expected value, ms. */
  #lateMs = Infinity;
  readonly #history: PaceHistory;
  #comparedMs = -Infinity;
  /** Pace over the shortest span at the last comparisons, as the logarithm of a multiple of that of the format. */
  #drifts: { atMs: number; drift: number }[] = [];
  #calmUntilMs = 0;
  #calmMs = FIRST_CALM_MS;

  /**
   * @param bytesPerMs pace of the format
   * @param ratios possible paces, as multiples of the pace of the format
   * @param history pace history of the sender, which is updated
   */
  constructor(bytesPerMs: number, ratios: readonly number[], history: PaceHistory) {
    this.#bytesPerMs = bytesPerMs;
    this.#ratios = ratios;
    this.#together = TOGETHER / Math.max(1, ...ratios);
    this.#history = history;
  }

  /**
   * Processes the length of a message, bytes, and its arrival time.
   * @returns the pace of the stream if it differs beyond doubt
   */
  push(bytes: number, atMs: number): Pace | undefined {
    const soundMs = bytes / this.#bytesPerMs;
    this.#learnJitter(atMs - this.#lastMs - soundMs);
    this.#lastMs = atMs;
    this.#soundMs += soundMs;
    const last = this.#points.at(-1);
    const sinceMs = last ? this.#soundMs - last.soundMs : Infinity;
    // Messages that a network had held up arrive at once: the last of them is the least late.
    if (last && atMs - last.atMs < sinceMs * this.#together) this.#points.pop();
    else if (last && Math.max(sinceMs, atMs - last.atMs) < this.#longestMs / MAX_POINTS)
      return undefined;
    this.#points.push({ soundMs: this.#soundMs, atMs });
    if (atMs - this.#comparedMs < COMPARE_EVERY_MS || atMs < this.#calmUntilMs) return undefined;
    this.#comparedMs = atMs;
    this.#factor = Math.min(MAX_FACTOR, 2 ** this.#history.changesOfLate(atMs));
    const oldestMs = atMs - this.#longestMs - FLOOR_MS;
    const kept = this.#points.findIndex((point) => point.atMs >= oldestMs);
    if (kept > 0) this.#points.splice(0, kept);
    for (const [i, shortMs] of SPANS_MS.entries()) {
      const spanMs = this.#factor * shortMs;
      const points = this.#points.slice(this.#points.findIndex((p) => p.atMs >= atMs - spanMs));
      const elapsedMs = atMs - points[0]!.atMs;
      if (elapsedMs < spanMs * LEAST_COVERED) continue;
      const ratio = roughRatioOf(points);
      if (i === 0) this.#learnWander(atMs, ratio, spanMs);
      const other = this.#compare(points, ratio, i === 0);
      if (other !== undefined) {
        const bytesPerMs = this.#bytesPerMs * other;
        return { bytesPerMs, elapsedMs, jitterMs: LEAST_JITTER_MS };
      }
    }
    return undefined;
  }

  get #longestMs(): number {
    return this.#factor * SPANS_MS[3];
  }

  /** Notes that the bytes have contradicted the pace. */
  dismiss(): void {
    this.#calmUntilMs = this.#lastMs + this.#calmMs;
    this.#calmMs = Math.min(MAX_CALM_MS, 2 * this.#calmMs);
  }

  /** Updates the jitter from changes of lateness: another pace delays each message equally, and does not count as jitter. */
  #learnJitter(lateMs: number): void {
    const changedMs = Math.abs(lateMs - this.#lateMs) / DEVIATIONS_OF_CHANGE;
    this.#lateMs = lateMs;
    if (!Number.isFinite(changedMs)) return;
    const { jitterMs } = this.#history;
    this.#history.jitterMs += (Math.min(MOST_LATE_MS, changedMs) - jitterMs) * JITTER_GAIN;
  }

  #learnWander(nowMs: number, ratio: number, spanMs: number): void {
    const drift = Math.log(ratio);
    const lastMs = this.#drifts.at(-1)?.atMs ?? nowMs;
    this.#drifts.push({ atMs: nowMs, drift });
    const before = this.#drifts.findLastIndex(({ atMs }) => atMs <= nowMs - spanMs);
    if (before === -1) return;
    const share = Math.min(MOST_COMPARED_MS, nowMs - lastMs) / WANDER_MS;
    const changed = Math.min(MOST_WANDER, Math.abs(drift - this.#drifts[before]!.drift));
    this.#history.wander += (changed - this.#history.wander) * share;
    this.#drifts.splice(0, before);
  }

  /** @returns the pace that explains the points better than that of the format, as a multiple of it */
  #compare(points: readonly PacePoint[], ratio: number, isShortest: boolean): number | undefined {
    if (Math.abs(Math.log(ratio)) < LEAST_DRIFT) return undefined;
    const elapsedMs = points.at(-1)!.atMs - points[0]!.atMs;
    const leastDrift =
      (LEAST_ABOVE_WANDER * this.#history.wander * this.#factor * SPANS_MS[0]) / elapsedMs;
    const noiseMs = Math.max(LEAST_JITTER_MS, this.#history.jitterMs);
    const isAheadOfAll = this.#isAhead(points[0]!, noiseMs);
    const near = this.#ratios
      .toSorted((a, b) => Math.abs(Math.log(a / ratio)) - Math.abs(Math.log(b / ratio)))
      .slice(0, 2);
    const [best, next] = near
      .map((other) => ({ other, fit: fit(points, other, noiseMs) }))
      .toSorted((a, b) => a.fit.cost - b.fit.cost);
    if (!best) return undefined;
    const { other } = best;
    if (isShortest && Math.max(other, 1 / other) < LEAST_RATIO_AT_ONCE) return undefined;
    if (Math.abs(Math.log(other)) < leastDrift) return undefined;
    if (other > LEAST_RATIO_AHEAD && !isAheadOfAll) return undefined;
    const rivals = [fit(points, 1, noiseMs), ...(next ? [next.fit] : [])];
    return rivals.every((rival) => isBetter(best.fit, rival)) ? other : undefined;
  }

  /** True if messages arrive earlier than any in the second before a span, which those after a stall of the network do not. */
  #isAhead(first: PacePoint, noiseMs: number): boolean {
    let leastMs = Infinity;
    for (const point of this.#points) {
      if (point === first) break;
      if (point.atMs >= first.atMs - FLOOR_MS)
        leastMs = Math.min(leastMs, point.atMs - point.soundMs);
    }
    const { atMs, soundMs } = this.#points.at(-1)!;
    return atMs - soundMs < leastMs - LEAST_AHEAD_MS - noiseMs;
  }
}

/** Returns the ratio of the pace of points to that of their format, by the earliest points of their first and last thirds. */
function roughRatioOf(points: readonly PacePoint[]): number {
  const third = Math.ceil(points.length / 3);
  const first = soonestOf(points.slice(0, third));
  const last = soonestOf(points.slice(-third));
  const elapsedMs = last.atMs - first.atMs;
  return elapsedMs > 0 ? (last.soundMs - first.soundMs) / elapsedMs : 1;
}

const soonestOf = (points: readonly PacePoint[]): PacePoint =>
  points.reduce((best, point) =>
    point.atMs - point.soundMs < best.atMs - best.soundMs ? point : best,
  );

/** Minimum gain of another pace as the explanation of the times, nats. */
const LEAST_GAIN = 7;
/** Minimum share and number of points that must fit another pace. */
const LEAST_SHARE = 0.6;
const LEAST_POINTS = 4;
/** Maximum mean cost of these points, nats; that of noise alone is 0.5. */
const MOST_COST = 0.8;

const isBetter = (other: Fit, rival: Fit): boolean =>
  (rival.cost - other.cost) * other.independence > LEAST_GAIN &&
  other.inliers >= LEAST_POINTS &&
  other.inliers >= other.points * LEAST_SHARE &&
  other.isThroughout &&
  other.costOfInliers < MOST_COST * other.inliers;
