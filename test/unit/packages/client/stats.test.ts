import { expect, test } from 'vitest';
import { StatsMeter } from '../../../../packages/client/src/stats.ts';
import { countersOf } from '../../../../packages/client/src/webrtc/count-rtc.ts';

/** Statistics of audio over WebRTC, of reports as browsers make them. */

type Counts = { bytesReceived: number; packetsReceived: number; packetsLost: number };

const reportsOf = (streams: Record<string, Counts>) => {
  const reports = Object.entries(streams).map(
    ([id, counts]) => [id, { id, type: 'inbound-rtp', ...counts }] as const,
  );
  return { send: new Map(), recv: new Map(reports) } as {
    send: RTCStatsReport;
    recv: RTCStatsReport;
  };
};

test('a peer that leaves takes nothing from the statistics of the others, and one that comes adds to them', () => {
  const meter = new StatsMeter(0);
  const bob = { bytesReceived: 14_400_000, packetsReceived: 180_000, packetsLost: 0 };
  const carl = { bytesReceived: 4000, packetsReceived: 50, packetsLost: 0 };
  meter.measure('webrtc', countersOf(reportsOf({ bob, carl })), 3_600_000);
  const later = { bytesReceived: 24_000, packetsReceived: 250, packetsLost: 50 };
  expect(meter.measure('webrtc', countersOf(reportsOf({ carl: later })), 3_605_000)).toMatchObject({
    lossRatio: 0.2,
    receivedBitrate: 32_000,
  });
  const dora = { bytesReceived: 20_000, packetsReceived: 250, packetsLost: 0 };
  expect(
    meter.measure('webrtc', countersOf(reportsOf({ carl: later, dora })), 3_610_000),
  ).toMatchObject({ lossRatio: 0, receivedBitrate: 32_000 });
});
