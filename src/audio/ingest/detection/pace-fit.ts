/** A message: duration of all audio up to its end, at the pace of the format, and its arrival time. */
export type PacePoint = { soundMs: number; atMs: number };

/** Quality with which a pace explains the arrival times of messages. */
export type Fit = {
  /** Cost in nats: sum of half the squared deviations in units of the jitter. Each is limited, because a stall says nothing about the pace. */
  cost: number;
  points: number;
  /** Number of points whose deviation is within the limit. */
  inliers: number;
  /** Cost of these points. */
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
/** Share of the points from which the usual delay is derived: those with the closest delays. */
const CORE = 0.6;

/**
 * Returns how well a pace explains the arrival times of messages.
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
