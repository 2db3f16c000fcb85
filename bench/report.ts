import { cpus } from 'node:os';
import { PINNING } from './child.ts';
import type { FloorFigures, GatewayFigures } from './measure.ts';
import type { Traffic } from './load.ts';
import type { Packets } from './packets.ts';
import type { Percentiles } from './probe-report.ts';
import { isPassThrough, type Scenario } from './scenario.ts';

/** All that was measured of one scenario; an idle one has no packets to look at or to hold against the floor. */
export type Row = {
  scenario: Scenario;
  gateway: GatewayFigures;
  probed: GatewayFigures | undefined;
  floor: FloorFigures | undefined;
};

const COLUMNS = [
  'rooms × peers × speakers',
  'delivery',
  'frames/s in + out',
  'Node CPU',
  'media worker CPU',
  'CPU a peer',
  'Node µs a packet',
  'floor µs',
  'ratio',
  'memory a peer',
  'loop delay p99',
  'added up p50 / p99',
  'added down p50 / p99',
  'end to end p50 / p99',
  'floor end to end',
  'lost',
];
const NONE = '–';
const GOALS = { ratio: 1.5, addedP99Ms: 5, memoryKb: 150 };
/** The latency goal is set for so many peers in so many rooms; memory for as many or more. */
const GOAL_ROOMS = 20;
const GOAL_PEERS = 200;

const tableLine = (cells: string[]) => `| ${cells.join(' | ')} |\n`;
const percent = (value: number, digits = 1) => `${value.toFixed(digits)} %`;
const rounded = (value: number | undefined, digits: number) => value?.toFixed(digits) ?? NONE;
const latency = (value: Percentiles | undefined) =>
  value ? `${value.p50Ms.toFixed(2)} / ${value.p99Ms.toFixed(2)} ms` : NONE;

/** The machine, so that figures from another day or place can be held against these. */
export function reportMachine({ encodeUs, meanBytes }: Packets, seconds: number): string {
  const pins = PINNING
    ? `gateway and media worker on core ${PINNING.measured}, generator on core ${PINNING.load}`
    : 'not bound to cores';
  return (
    `${cpus()[0]?.model}, ${cpus().length} cores (${pins}); Node ${process.version}; ` +
    `Opus of ${meanBytes.toFixed(0)} bytes, ${encodeUs.toFixed(0)} µs to encode; windows of ${seconds} s.\n`
  );
}

export function reportHead(): string {
  return tableLine(COLUMNS) + tableLine(COLUMNS.map(() => '---'));
}

export function reportRow(row: Row): string {
  const { scenario, gateway, probed, floor } = row;
  const { traffic } = gateway;
  const framesPerS = (frames: number) => Math.round(frames / traffic.seconds);
  const total = gateway.nodePercent + gateway.mediaWorkerPercent;
  const peers = scenario.rooms * scenario.peers;
  return tableLine([
    `${scenario.rooms} × ${scenario.peers} × ${scenario.speakers}`,
    scenario.delivery,
    `${framesPerS(traffic.framesIn)} + ${framesPerS(traffic.framesOut)}`,
    percent(gateway.nodePercent),
    percent(gateway.mediaWorkerPercent),
    percent(total / peers, 3),
    rounded(usAPacket(gateway.nodePercent, traffic), 1),
    rounded(floor && usAPacket(floor.percent, floor.traffic), 1),
    rounded(ratioOf(row), 2),
    `${gateway.memoryKbAPeer.toFixed(0)} KB`,
    probed?.probe ? `${probed.probe.loopDelayP99Ms.toFixed(1)} ms` : NONE,
    latency(probed?.probe?.up),
    latency(isPassThrough(scenario) ? probed?.probe?.down : undefined),
    latency(traffic.endToEnd),
    latency(floor?.traffic.endToEnd),
    String(traffic.lost + (probed?.traffic.lost ?? 0)),
  ]);
}

/** What the columns mean, how quiet the generator was, and which goals were met. */
export function reportFoot(rows: Row[]): string {
  const late = Math.max(
    ...rows.flatMap(({ gateway, probed }) =>
      [gateway, probed].map((figures) => figures?.traffic.sentLateP99Ms ?? 0),
    ),
  );
  return `
CPU is of one core. A packet is a binary frame, in or out, of a client. The floor is a bare ws + dgram relay of as many
frames. Latency and loop delay are of a second run with a probe inside; end to end is from a client's send to another's
receipt, the media worker and the generator included. A mixed frame is nobody's packet, so it has no latency here. The
generator sent ${late.toFixed(2)} ms late at p99 in its worst row.

${goals(rows).join('\n')}
`;
}

function goals(rows: Row[]): string[] {
  const ratios = rows.filter(({ scenario }) => isPassThrough(scenario)).map(ratioOf);
  const ratio = Math.max(...ratios.map((value) => value ?? 0));
  const atGoal = rows.filter(
    ({ scenario }) =>
      scenario.speakers > 0 &&
      scenario.rooms === GOAL_ROOMS &&
      scenario.rooms * scenario.peers === GOAL_PEERS,
  );
  const added = Math.max(
    ...atGoal.flatMap(({ scenario, probed }) => [
      probed?.probe?.up?.p99Ms ?? 0,
      isPassThrough(scenario) ? (probed?.probe?.down?.p99Ms ?? 0) : 0,
    ]),
  );
  const lost = atGoal.reduce(
    (sum, { gateway, probed }) => sum + gateway.traffic.lost + (probed?.traffic.lost ?? 0),
    0,
  );
  const memory = Math.max(
    ...rows
      .filter(({ scenario }) => scenario.rooms * scenario.peers >= GOAL_PEERS)
      .map(({ gateway }) => gateway.memoryKbAPeer),
  );
  const lines: string[] = [];
  if (ratio > 0) {
    lines.push(
      `- ${met(ratio <= GOALS.ratio)}: Node CPU a packet at most ${GOALS.ratio} × the floor in pass-through: ${ratio.toFixed(2)}`,
    );
  }
  if (atGoal.length > 0) {
    lines.push(
      `- ${met(added < GOALS.addedP99Ms)}: added latency p99 under ${GOALS.addedP99Ms} ms at 200 peers in 20 rooms: ${added.toFixed(2)} ms`,
      `- ${met(lost === 0)}: no frame lost there: ${lost}`,
    );
  }
  if (memory > 0) {
    lines.push(
      `- ${met(memory < GOALS.memoryKb)}: memory under ${GOALS.memoryKb} KB a peer, with 200 peers: ${memory.toFixed(0)} KB`,
    );
  }
  return lines;
}

const met = (isMet: boolean) => (isMet ? 'met' : 'NOT MET');

function usAPacket(cpuPercent: number, { seconds, framesIn, framesOut }: Traffic) {
  const frames = framesIn + framesOut;
  return frames > 0 ? (cpuPercent * 1e4 * seconds) / frames : undefined;
}

/** What a packet costs the gateway's Node over what it costs the floor. */
function ratioOf({ gateway, floor }: Row): number | undefined {
  const own = usAPacket(gateway.nodePercent, gateway.traffic);
  const least = floor && usAPacket(floor.percent, floor.traffic);
  return own !== undefined && least !== undefined ? own / least : undefined;
}
