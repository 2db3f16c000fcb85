import type { AudioCounters } from '../stats.ts';

/** Statistics of browsers, as far as they are read here; each field may be absent. */
type Report = Partial<RTCInboundRtpStreamStats & RTCOutboundRtpStreamStats> & {
  type: string;
  currentRoundTripTime?: number;
  nominated?: boolean;
};

/** Adds up what a browser counts of all its streams. Times of the slowest stand for all. */
export function countersOf(
  stats: { send: RTCStatsReport; recv: RTCStatsReport } | undefined,
): AudioCounters {
  const counters: AudioCounters = {
    bytesSent: 0,
    bytesReceived: 0,
    packetsReceived: 0,
    packetsLost: 0,
    underruns: 0,
  };
  if (!stats) return counters;
  const longest = (name: 'rttMs' | 'jitterMs' | 'playoutMs', seconds: number | undefined) => {
    if (seconds === undefined) return;
    counters[name] = Math.max(counters[name] ?? 0, seconds * 1000);
  };
  const reports = [...stats.send.values(), ...stats.recv.values()] as Report[];
  for (const report of reports) {
    if (report.type === 'outbound-rtp') counters.bytesSent += report.bytesSent ?? 0;
    if (report.type === 'candidate-pair' && report.nominated) {
      longest('rttMs', report.currentRoundTripTime);
    }
    if (report.type !== 'inbound-rtp') continue;
    counters.bytesReceived += report.bytesReceived ?? 0;
    counters.packetsReceived += report.packetsReceived ?? 0;
    counters.packetsLost += report.packetsLost ?? 0;
    counters.underruns += report.concealmentEvents ?? 0;
    longest('jitterMs', report.jitter);
    const { jitterBufferDelay = 0, jitterBufferEmittedCount: emitted = 0 } = report;
    if (emitted > 0) longest('playoutMs', jitterBufferDelay / emitted);
  }
  return counters;
}
