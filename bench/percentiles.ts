import type { RecordableHistogram } from 'node:perf_hooks';

export type Percentiles = { p50Ms: number; p99Ms: number };

/** Returns percentiles of a histogram of nanoseconds; undefined if nothing was recorded. */
export function percentilesOf(histogram: RecordableHistogram): Percentiles | undefined {
  if (histogram.count === 0) return undefined;
  return { p50Ms: histogram.percentile(50) / 1e6, p99Ms: histogram.percentile(99) / 1e6 };
}

/** Returns a quantile of values in ascending order; NaN if there are none. @param share 0…1 */
export const quantile = (sorted: number[], share: number) =>
  sorted[Math.ceil(share * sorted.length) - 1] ?? NaN;
