import type { RtcAddress } from '../../config/listen-addresses.ts';
import type { Timings } from '../../config/timings.ts';
import type { WorkerMemoryLimits } from './worker-memory.ts';

/** Settings of the media workers. */
export type MediaSettings = {
  mediaWorkers: number;
  workerBin: string;
  /** Returns the addresses for WebRTC; called at each start of a media worker, because a machine's addresses change. */
  rtcAddresses: () => readonly RtcAddress[];
  /** UDP and TCP port of the first media worker's WebRtcServer; each further one takes the next. */
  rtcPort: number;
  /** Number of consumers of a room on one media worker from which its next browser goes to another. */
  routerMaxConsumers: number;
  timings: Timings['mediaWorkers'];
  /** Limits of the memory of each media worker; by default those of the product. */
  memory?: WorkerMemoryLimits;
};
