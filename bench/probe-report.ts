export type Percentiles = { p50Ms: number; p99Ms: number };

/** What the probe inside the gateway tells when it is asked. */
export type ProbeReport = {
  /** Binary frame received → plain RTP sent. */
  up: Percentiles | undefined;
  /** RTP received → binary frame sent; undefined where frames are mixed anew. */
  down: Percentiles | undefined;
  loopDelayP99Ms: number;
  /** Since the start. */
  counts: { framesIn: number; rtpOut: number; rtpIn: number };
  /** Frames that the gateway had not passed on as RTP when the measuring began: dropped while it was cold. */
  droppedCold: number;
};
