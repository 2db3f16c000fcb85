import type { Timings } from '../../config/timings.ts';

/** Settings of the media workers. */
export type MediaSettings = {
  mediaWorkers: number;
  workerBin: string;
  rtcListenIp: string;
  /** Told to browsers in place of `rtcListenIp`; empty if they are the same. */
  rtcAnnouncedAddress: string;
  /** UDP and TCP port of the first media worker's WebRtcServer; each further one takes the next. */
  rtcPort: number;
  /** Whether WebRTC is served over TCP too. */
  rtcTcp: boolean;
  /** A room that has so many consumers on one media worker takes its next browser to another. */
  routerMaxConsumers: number;
  timings: Timings['mediaWorkers'];
};
