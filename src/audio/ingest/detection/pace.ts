/** One binary message, and its arrival time. */
export type TimedMessage = { message: Buffer; atMs: number };

/** Interval below which messages were held up together by the network, ms. */
const TOGETHER_MS = 1;
/** Maximum delay of a message beyond the usual gap, ms, that is not a stall of the network. */
const HELD_UP_MS = 25;
const MOST_GAPS = 1.5;

/**
 * Returns those of two or more messages whose times show the pace of the sender, without those that had piled up
 * before their arrival, as happens while a client connects.
 * @returns undefined while the times show nothing: after a stall, until all delayed messages have arrived
 */
export function pacedOf(arrivals: TimedMessage[]): TimedMessage[] | undefined {
  const lastMs = elapsedMsOf(arrivals.slice(-2));
  if (lastMs < TOGETHER_MS) return undefined;
  const gapsMs = arrivals.slice(1).map(({ atMs }, i) => atMs - arrivals[i]!.atMs);
  const apartMs = gapsMs.filter((gapMs) => gapMs >= TOGETHER_MS);
  const usualMs = apartMs.toSorted((a, b) => a - b)[(apartMs.length - 1) >> 1]!;
  if (lastMs > Math.max(usualMs + HELD_UP_MS, usualMs * MOST_GAPS)) return undefined;
  const isPiledUp = gapsMs[0]! < TOGETHER_MS;
  // The last message of the pile came late, too; the next one is in time.
  const from = isPiledUp ? gapsMs.findIndex((gapMs) => gapMs >= TOGETHER_MS) + 1 : 0;
  return arrivals.length - from > 1 ? arrivals.slice(from) : undefined;
}

export const elapsedMsOf = (arrivals: TimedMessage[]): number =>
  arrivals.at(-1)!.atMs - arrivals[0]!.atMs;

/** Returns the pace of two messages or more: the bytes after the first message, divided by the time since. */
export function bytesPerMsOf(arrivals: TimedMessage[]): number {
  const bytes = arrivals.slice(1).reduce((total, { message }) => total + message.length, 0);
  return bytes / elapsedMsOf(arrivals);
}

/** Maximum ratio of a measured pace to that of a format, or the reverse, at which both may be one: another rate differs by more, but for 44.1 and 48 kHz. */
const MOST_RATIO = 1.25;

/** True if there are two messages or more, and they came at about a pace. */
export function areAtPace(arrivals: TimedMessage[], bytesPerMs: number): boolean {
  if (arrivals.length < 2) return false;
  const ratio = bytesPerMsOf(arrivals) / bytesPerMs;
  return ratio < MOST_RATIO && ratio > 1 / MOST_RATIO;
}

/** Bytes a millisecond, the time over which they were counted, ms, and the uncertainty of that time, ms. */
export type Pace = { bytesPerMs: number; elapsedMs: number; jitterMs: number };

/** Minimum and maximum of the assumed jitter, ms. */
const LEAST_JITTER_MS = 6;
const MOST_JITTER_MS = 30;
/** Ratio of the standard deviation to the median of random deviations. */
const DEVIATION_OF_MEDIAN = 1.48;

/** Returns the pace of two messages or more. */
export function paceOf(arrivals: TimedMessage[]): Pace {
  const bytesPerMs = bytesPerMsOf(arrivals);
  const lateMs = arrivals
    .slice(1)
    .map(({ message, atMs }, i) => Math.abs(atMs - arrivals[i]!.atMs - message.length / bytesPerMs))
    .toSorted((a, b) => a - b);
  const usuallyLateMs = DEVIATION_OF_MEDIAN * lateMs[lateMs.length >> 1]!;
  const jitterMs = Math.min(MOST_JITTER_MS, Math.max(LEAST_JITTER_MS, usuallyLateMs));
  return { bytesPerMs, elapsedMs: elapsedMsOf(arrivals), jitterMs };
}
