/** Audio up to and including a message, as a duration at the pace of the format, and the arrival time of the message. */
export type PacePoint = { soundMs: number; atMs: number };

/** Quality of a pace as the explanation of the times of messages. */
export type Fit = {
  /** Cost in nats: half of the squared deviations in units of the jitter, each up to a limit, because a stall says nothing about a pace. */
  cost: number;
  points: number;
  /** Number of points within the limit, and their cost. */
  inliers: number;
  costOfInliers: number;
  /** Share of the points that are independent: jitter persists for a while. */
  independence: number;
  /** True if some inliers are in the first quarter and some in the last. */
  isThroughout: boolean;
};

/** Deviation, in units of the jitter, beyond which the cost does not grow. */
const LIMIT = 3;
/** Time after which a point is independent of another, in units of the jitter. */
const INDEPENDENT_AFTER = 3;
/** Share of the points from which the delay is derived: those closest together. */
const CORE = 0.6;

/**
 * Fits the times of messages to a pace.
 * @param ratio pace, as a multiple of that of the format
 */
export function fit(points: readonly PacePoint[], ratio: number, jitterMs: number): Fit {
  const delays = Float64Array.from(points, ({ soundMs, atMs }) => atMs - soundMs / ratio);
  const usualMs = centreOf(delays.toSorted());
  const result = { cost: 0, points: points.length, inliers: 0, costOfInliers: 0 };
  let [first, last] = [points.length, 0];
  for (const [i, delay] of delays.entries()) {
    const deviation = Math.abs(delay - usualMs) / jitterMs;
    if (deviation > LIMIT) {
      result.cost += (LIMIT * LIMIT) / 2;
      continue;
    }
    const cost = (deviation * deviation) / 2;
    result.cost += cost;
    result.costOfInliers += cost;
    result.inliers += 1;
    first = Math.min(first, i);
    last = i;
  }
  const quarter = points.length / 4;
  const elapsedMs = points.at(-1)!.atMs - points[0]!.atMs;
  const independent = elapsedMs / (INDEPENDENT_AFTER * jitterMs);
  const independence = Math.min(1, independent / points.length);
  return {
    ...result,
    independence,
    isThroughout: first < quarter && last >= points.length - quarter,
  };
}

/** Returns the mean of the shortest range of sorted values that contains CORE of them. */
function centreOf(sorted: Float64Array): number {
  const count = Math.ceil(sorted.length * CORE);
  let from = 0;
  for (let i = 1; i + count <= sorted.length; i += 1) {
    const widthMs = sorted[i + count - 1]! - sorted[i]!;
    if (widthMs < sorted[from + count - 1]! - sorted[from]!) from = i;
  }
  let sum = 0;
  for (let i = from; i < from + count; i += 1) sum += sorted[i]!;
  return sum / count;
}
