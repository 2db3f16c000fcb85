import type { Traffic } from './load.ts';
import type { Figures } from './measure.ts';
import { FRAME_MS } from './pacing.ts';
import type { ProbeReport } from './probe-report.ts';
import type { Scenario } from './scenario.ts';

/** All figures of one scenario; an idle one has no packets to compare. */
export type Row = {
  scenario: Scenario;
  gateway: Figures;
  memoryKbAPeer: number;
  floor: Figures | undefined;
  janus: Figures | undefined;
  inside: { traffic: Traffic; probe: ProbeReport } | undefined;
};

/** Lateness of the generator at p99 above which it, and most likely the subject, was held up. */
export const MAX_LATE_MS = 10;

export const peersOf = ({ scenario }: Row) => scenario.rooms * scenario.peers;

/** Returns the CPU of the process and its media workers, in % of a core. */
export const cpuPercent = ({ mainMs, mediaWorkerMs, traffic }: Figures) =>
  (mainMs + mediaWorkerMs) / traffic.seconds / 10;

/** Returns the CPU time of the process itself for each binary frame of a client, in or out, µs. */
export function usAPacket({ mainMs, traffic: { framesIn, framesOut } }: Figures) {
  const frames = framesIn + framesOut;
  return frames > 0 ? (mainMs * 1000) / frames : undefined;
}

/** Returns the cost of a packet for the gateway's Node process, as a multiple of the floor's. */
export function floorRatioOf({ gateway, floor }: Row): number | undefined {
  const own = usAPacket(gateway);
  const least = floor && usAPacket(floor);
  return own !== undefined && least !== undefined ? own / least : undefined;
}

/** Returns the cost of a room for the gateway, media workers included, as a multiple of Janus's. */
export const janusRatioOf = ({ gateway, janus }: Row) =>
  janus && cpuPercent(gateway) / cpuPercent(janus);

/** Returns the same ratio for each frame that was heard: if Janus has no core left, it leaves frames out. */
export function janusFrameRatioOf(row: Row): number | undefined {
  const ratio = janusRatioOf(row);
  if (ratio === undefined || !row.janus) return undefined;
  return (ratio * heardPerS(row.janus)) / heardPerS(row.gateway);
}

const heardPerS = ({ traffic }: Figures) => traffic.framesOut / traffic.seconds;

/**
 * Returns the share of due frames that Janus sent to its participants, in %; one for each participant is due
 * every 20 ms.
 */
export function janusDelivered(row: Row): number | undefined {
  const { janus } = row;
  if (!janus) return undefined;
  const { seconds, framesOut } = janus.traffic;
  return (100 * framesOut) / (peersOf(row) * ((seconds * 1000) / FRAME_MS));
}

/** Returns the frames lost in both runs. */
export const lostIn = ({ gateway, inside }: Row) =>
  gateway.traffic.lost + (inside?.traffic.lost ?? 0);

export const lateMs = ({ gateway, floor, inside, janus }: Row) =>
  Math.max(...[gateway, floor, inside, janus].map((part) => part?.traffic.sentLateP99Ms ?? 0));

/** Returns true if other load on the machine makes the row meaningless. */
export const isDisturbed = (row: Row) => lateMs(row) > MAX_LATE_MS;
