/** One binary message, and when it came. */
export type TimedMessage = { message: Buffer; atMs: number };

/** Messages that come closer together than this have waited for each other on their way. */
const TOGETHER_MS = 1;
/** Delay of a message beyond the usual gap up to which the network has not stalled. */
const HELD_UP_MS = 25;
const MOST_GAPS = 1.5;

/**
 * Returns those of two or more messages whose times tell the pace of the sender, without the ones that had piled up
 * before they came, as happens while a client connects.
 * @returns undefined while they tell nothing: after a stall, until what it has held up is all there
 */
export function pacedOf(arrivals: TimedMessage[]): TimedMessage[] | undefined {
  const lastMs = elapsedMsOf(arrivals.slice(-2));
  if (lastMs < TOGETHER_MS) return undefined;
  const gapsMs = arrivals.slice(1).map(({ atMs }, i) => atMs - arrivals[i]!.atMs);
  const apartMs = gapsMs.filter((gapMs) => gapMs >= TOGETHER_MS);
  const usualMs = apartMs.toSorted((a, b) => a - b)[(apartMs.length - 1) >> 1]!;
  if (lastMs > Math.max(usualMs + HELD_UP_MS, usualMs * MOST_GAPS)) return undefined;
  const isPiledUp = gapsMs[0]! < TOGETHER_MS;
  // The last of the pile came late too; who comes next is in time.
  const from = isPiledUp ? gapsMs.findIndex((gapMs) => gapMs >= TOGETHER_MS) + 1 : 0;
  return arrivals.length - from > 1 ? arrivals.slice(from) : undefined;
}

export const elapsedMsOf = (arrivals: TimedMessage[]): number =>
  arrivals.at(-1)!.atMs - arrivals[0]!.atMs;

/** The pace of two messages or more: what came after the first, in the time since. */
export function bytesPerMsOf(arrivals: TimedMessage[]): number {
  const bytes = arrivals.slice(1).reduce((total, { message }) => total + message.length, 0);
  return bytes / elapsedMsOf(arrivals);
}

/** Bytes a millisecond, the time over which they were counted, ms, and by how much that time may be off, ms. */
export type Pace = { bytesPerMs: number; elapsedMs: number; jitterMs: number };

/** Jitter that is always reckoned with, ms, and the most. */
const LEAST_JITTER_MS = 6;
const MOST_JITTER_MS = 30;
/** Ratio between the standard deviation and the median of what deviates at random. */
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
