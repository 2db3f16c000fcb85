import type { Percentiles } from './percentiles.ts';

/** What the probe inside the gateway tells when it is asked. */
export type ProbeReport = {
  /** Binary message received → the same bytes sent; undefined where frames are mixed anew. */
  inside: Percentiles | undefined;
  loopDelayP99Ms: number;
};
