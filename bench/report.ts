import { cpus } from 'node:os';
import { PINNING } from './child.ts';
import { reportGoals } from './goals.ts';
import type { Packets } from './packets.ts';
import type { Percentiles } from './percentiles.ts';
import {
  cpuPercent,
  floorRatioOf,
  isDisturbed,
  janusDelivered,
  janusFrameRatioOf,
  janusRatioOf,
  lateMs,
  lostIn,
  MAX_LATE_MS,
  peersOf,
  type Row,
  usAPacket,
} from './row.ts';
import { isPassThrough, nameOf } from './scenario.ts';

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
  'CPU over floor',
  'memory a peer',
  'loop delay p99',
  'inside p50 / p99',
  'end to end p50 / p99',
  'floor end to end',
  'lost',
  'Janus CPU',
  'Janus delivered',
  'CPU over Janus',
  'a frame',
];
const NONE = '–';

const tableLine = (cells: string[]) => `| ${cells.join(' | ')} |\n`;
const percent = (value: number | undefined, digits = 1) =>
  value === undefined ? NONE : `${value.toFixed(digits)} %`;
const rounded = (value: number | undefined, digits: number) => value?.toFixed(digits) ?? NONE;
const latency = (value: Percentiles | undefined) =>
  value ? `${value.p50Ms.toFixed(2)} / ${value.p99Ms.toFixed(2)} ms` : NONE;

/** Describes the machine, so that figures of different days and machines can be compared. */
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
  const { scenario, gateway, floor, inside, janus } = row;
  const { traffic, mainMs, mediaWorkerMs } = gateway;
  const framesPerS = (frames: number) => Math.round(frames / traffic.seconds);
  const ofCore = (cpuMs: number) => cpuMs / traffic.seconds / 10;
  return tableLine([
    nameOf(scenario),
    scenario.delivery,
    scenario.hear,
    `${framesPerS(traffic.framesIn)} + ${framesPerS(traffic.framesOut)}`,
    percent(ofCore(mainMs)),
    percent(ofCore(mediaWorkerMs)),
    percent(cpuPercent(gateway) / peersOf(row), 3),
    rounded(usAPacket(gateway), 1),
    rounded(floor && usAPacket(floor), 1),
    rounded(floorRatioOf(row), 2),
    `${row.memoryKbAPeer.toFixed(0)} KB`,
    inside ? `${inside.probe.loopDelayP99Ms.toFixed(1)} ms` : NONE,
    latency(isPassThrough(scenario) ? inside?.probe.inside : undefined),
    latency(traffic.endToEnd),
    latency(floor?.traffic.endToEnd),
    `${lostIn(row)}${isDisturbed(row) ? ' †' : ''}`,
    percent(janus && cpuPercent(janus)),
    percent(janusDelivered(row), 0),
    rounded(janusRatioOf(row), 2),
    rounded(janusFrameRatioOf(row), 2),
  ]);
}

/** Explains the columns, the lateness of the generator, and the goals that were met. */
export function reportFoot(rows: Row[]): string {
  const disturbed = `
† Other load on the machine delayed the generator by more than ${MAX_LATE_MS} ms: do not rely on this row.
`;
  return `
CPU is of one core. A packet is a binary frame, in or out, of a client. The floor is a bare ws + dgram relay of as many
frames, the media worker's round trip included, which the gateway makes only while a browser is in the room; the two take
turns. Loop delay and the time inside are of another run with a probe inside: loop delay is how long something due at a random
moment waits for the event loop; inside is the time from a binary message's receipt to the sending of the same bytes; end to end is the time from a client's send to another's receipt, the generator included. Mixed frames
have neither, because no client sent them. Janus is its AudioBridge (1.1.2 in Debian 12) on the same core, its participants on plain RTP, without
SRTP or ICE; where it delivered less than 100 %, the core was fully used. CPU over Janus is that of Node and the media worker; *a frame* is the
same ratio for each frame that was heard.
The generator sent ${Math.max(...rows.map(lateMs)).toFixed(1)} ms late at p99 in its worst row.
${rows.some(isDisturbed) ? disturbed : ''}
${reportGoals(rows).join('\n')}
`;
}
