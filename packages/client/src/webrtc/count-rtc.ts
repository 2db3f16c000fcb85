import type { AudioCounters, StreamCounters } from '../stats.ts';

/** Entry of a browser's statistics, with the fields that are read here; each may be absent. */
type Report = Partial<RTCInboundRtpStreamStats & RTCOutboundRtpStreamStats> & {
  id: string;
  type: string;
  currentRoundTripTime?: number;
  nominated?: boolean;
};

/**
 * Returns the counters of each RTP stream, their sums, and the times (round trip, jitter, playout) of the slowest stream.
 * @param stats statistics of the two transports; undefined if there are none
 */
export function countersOf(
  stats: { send: RTCStatsReport; recv: RTCStatsReport } | undefined,
): AudioCounters {
  const streams = new Map<string, StreamCounters>();
  const counters: AudioCounters = { ...NOTHING, streams };
  if (!stats) return counters;
  const longest = (name: 'rttMs' | 'jitterMs' | 'playoutMs', seconds: number | undefined) => {
    if (seconds === undefined) return;
    counters[name] = Math.max(counters[name] ?? 0, seconds * 1000);
  };
  const add = (id: string, counts: Partial<StreamCounters>) => {
    const stream = { ...NOTHING, ...counts };
    streams.set(id, stream);
    for (const name of NAMES) counters[name] += stream[name];
  };
  const reports = [...stats.send.values(), ...stats.recv.values()] as Report[];
  for (const report of reports) {
    if (report.type === 'outbound-rtp') add(report.id, { bytesSent: report.bytesSent ?? 0 });
    if (report.type === 'candidate-pair' && report.nominated) {
      longest('rttMs', report.currentRoundTripTime);
    }
    if (report.type !== 'inbound-rtp') continue;
    add(report.id, {
      bytesReceived: report.bytesReceived ?? 0,
      packetsReceived: report.packetsReceived ?? 0,
      packetsLost: report.packetsLost ?? 0,
      underruns: report.concealmentEvents ?? 0,
    });
    longest('jitterMs', report.jitter);
    const { jitterBufferDelay = 0, jitterBufferEmittedCount: emitted = 0 } = report;
    if (emitted > 0) longest('playoutMs', jitterBufferDelay / emitted);
  }
  return counters;
}

const NOTHING: StreamCounters = {
  bytesSent: 0,
  bytesReceived: 0,
  packetsReceived: 0,
  packetsLost: 0,
  underruns: 0,
};
const NAMES = Object.keys(NOTHING) as (keyof StreamCounters)[];
