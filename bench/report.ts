import { cpus } from 'node:os';
import { PINNING } from './child.ts';
import type { Traffic } from './load.ts';
import type { Figures } from './measure.ts';
import type { Packets } from './packets.ts';
import type { Percentiles } from './percentiles.ts';
import type { ProbeReport } from './probe-report.ts';
import { isPassThrough, nameOf, type Scenario } from './scenario.ts';

/** All that was measured of one scenario; an idle one has no packets to look at or to hold against the floor. */
export type Row = {
  scenario: Scenario;
  gateway: Figures;
  memoryKbAPeer: number;
  floor: Figures | undefined;
  inside: { traffic: Traffic; probe: ProbeReport } | undefined;
};

const COLUMNS = [
  'rooms × peers × speakers',
  'delivery',
  'heard',
  'frames/s in + out',
  'Node CPU',
  'media worker CPU',
  'CPU a peer',
  'Node µs a packet',
  'floor µs',
  'ratio',
  'memory a peer',
  'loop delay p99',
  'inside p50 / p99',
  'end to end p50 / p99',
  'floor end to end',
  'lost',
];
/** A generator that is later than this at p99 was held up, and so, most likely, was what it measured. */
const MAX_LATE_MS = 10;
const NONE = '–';
const GOALS = { ratio: 1.5, insideP99Ms: 5, memoryKb: 150 };
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
  const { scenario, gateway, floor, inside } = row;
  const { traffic, nodeMs, mediaWorkerMs } = gateway;
  const framesPerS = (frames: number) => Math.round(frames / traffic.seconds);
  const ofCore = (cpuMs: number) => cpuMs / traffic.seconds / 10;
  const peers = scenario.rooms * scenario.peers;
  return tableLine([
    nameOf(scenario),
    scenario.delivery,
    scenario.hear,
    `${framesPerS(traffic.framesIn)} + ${framesPerS(traffic.framesOut)}`,
    percent(ofCore(nodeMs)),
    percent(ofCore(mediaWorkerMs)),
    percent(ofCore(nodeMs + mediaWorkerMs) / peers, 3),
    rounded(usAPacket(gateway), 1),
    rounded(floor && usAPacket(floor), 1),
    rounded(ratioOf(row), 2),
    `${row.memoryKbAPeer.toFixed(0)} KB`,
    inside ? `${inside.probe.loopDelayP99Ms.toFixed(1)} ms` : NONE,
    latency(isPassThrough(scenario) ? inside?.probe.inside : undefined),
    latency(traffic.endToEnd),
    latency(floor?.traffic.endToEnd),
    `${lostIn(row)}${isDisturbed(row) ? ' †' : ''}`,
  ]);
}

/** What the columns mean, how quiet the generator was, and which goals were met. */
export function reportFoot(rows: Row[]): string {
  const disturbed = `
† Something else held the generator up by more than ${MAX_LATE_MS} ms: nothing in this row is to be relied on.
`;
  return `
CPU is of one core. A packet is a binary frame, in or out, of a client. The floor is a bare ws + dgram relay of as many
frames, the media worker's round trip included, which the gateway makes only while a browser is in the room; the two take
turns. Latency and loop delay are of another run with a probe inside: inside is from a binary message's coming in to the
same bytes' going out; end to end is from a client's send to another's receipt, the generator included. A mixed frame is
nobody's packet, so it has neither. The generator sent ${Math.max(...rows.map(lateMs)).toFixed(1)} ms late at p99 in its worst row.
${rows.some(isDisturbed) ? disturbed : ''}
${goals(rows).join('\n')}
`;
}

function goals(rows: Row[]): string[] {
  const talking = rows.filter(({ scenario }) => scenario.speakers > 0);
  const peersOf = ({ scenario }: Row) => scenario.rooms * scenario.peers;
  const passing = talking.filter(({ scenario }) => isPassThrough(scenario));
  const atGoal = talking.filter(
    (row) => row.scenario.rooms === GOAL_ROOMS && peersOf(row) === GOAL_PEERS,
  );
  const large = rows.filter((row) => peersOf(row) >= GOAL_PEERS);
  const lines: string[] = [];
  if (passing.length > 0) {
    const ratio = Math.max(...passing.map((row) => ratioOf(row) ?? 0));
    lines.push(
      `${met(ratio <= GOALS.ratio)}: Node CPU a packet at most ${GOALS.ratio} × the floor in pass-through: ${ratio.toFixed(2)}`,
    );
  }
  if (atGoal.length > 0) {
    const insideMs = Math.max(...atGoal.map(({ inside }) => inside?.probe.inside?.p99Ms ?? 0));
    const lost = atGoal.reduce((sum, row) => sum + lostIn(row), 0);
    lines.push(
      `${met(insideMs < GOALS.insideP99Ms)}: inside for less than ${GOALS.insideP99Ms} ms at p99, at 200 peers in 20 rooms: ${insideMs.toFixed(2)} ms`,
      `${met(lost === 0)}: no frame lost there: ${lost}`,
    );
  }
  if (large.length > 0) {
    const memoryKb = Math.max(...large.map((row) => row.memoryKbAPeer));
    lines.push(
      `${met(memoryKb < GOALS.memoryKb)}: memory under ${GOALS.memoryKb} KB a peer, at 200 peers: ${memoryKb.toFixed(0)} KB`,
    );
  }
  return lines.map((line) => `- ${line}`);
}

/** True if the machine was too busy with other things for the row to mean anything. */
export const isDisturbed = (row: Row) => lateMs(row) > MAX_LATE_MS;

const lateMs = ({ gateway, floor, inside }: Row) =>
  Math.max(...[gateway, floor, inside].map((part) => part?.traffic.sentLateP99Ms ?? 0));

/** In both runs. */
const lostIn = ({ gateway, inside }: Row) => gateway.traffic.lost + (inside?.traffic.lost ?? 0);

const met = (isMet: boolean) => (isMet ? 'met' : 'NOT MET');

function usAPacket({ nodeMs, traffic: { framesIn, framesOut } }: Figures): number | undefined {
  const frames = framesIn + framesOut;
  return frames > 0 ? (nodeMs * 1000) / frames : undefined;
}

/** What a packet costs the gateway's Node over what it costs the floor. */
function ratioOf({ gateway, floor }: Row): number | undefined {
  const own = usAPacket(gateway);
  const least = floor && usAPacket(floor);
  return own !== undefined && least !== undefined ? own / least : undefined;
}
