import type { Percentiles } from './percentiles.ts';

/** Answer of the probe inside the gateway. */
export type ProbeReport = {
  /** Binary message received → the same bytes sent; undefined where frames are mixed anew. */
  inside: Percentiles | undefined;
  /** Delay of the event loop, weighted by time. */
  loopDelayP99Ms: number;
};
