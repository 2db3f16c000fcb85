import type { Percentiles } from './percentiles.ts';

/** Answer of the probe inside the gateway. */
export type ProbeReport = {
  /** Time from a binary message's receipt to the sending of the same bytes; undefined if every frame is mixed. */
  inside: Percentiles | undefined;
  /** Delay of the event loop, weighted by time. */
  loopDelayP99Ms: number;
};
