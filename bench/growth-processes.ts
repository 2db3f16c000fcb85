import { setTimeout as sleep } from 'node:timers/promises';
import { CORES } from './child.ts';
import { Load, type Traffic } from './load.ts';
import { Nodes } from './nodes.ts';
import { encodePackets } from './packets.ts';
import { MAX_LATE_MS } from './row.ts';
import type { Scenario } from './scenario.ts';

/** As much for each process, and then twice as much, as there are more of them. */
const LOADS = [
  { processes: 1, rooms: 6 },
  { processes: 2, rooms: 12 },
  { processes: 4, rooms: 24 },
  { processes: 1, rooms: 12 },
  { processes: 2, rooms: 24 },
] as const;

/** More than two cores bear, and fewer connections than the demo account may have. */
const MAX_ROOMS = 84;
/** In which the highest load is searched. */
const PROBES = 2;
const WARM_UP_MS = 1500;
const WINDOW_MS = 3000;
const PROBE_WINDOW_MS = 1500;
const DRAIN_MS = 200;
/** A share of the frames that is not worth the name of loss. */
const LOST_SHARE = 0.001;

type Measured = { traffic: Traffic; cpuMs: number };

const scenarioOf = (rooms: number): Scenario => ({
  rooms,
  peers: 5,
  speakers: 2,
  delivery: 'mix',
  hear: 'opus',
});

/** Measures the cost of a frame with several equally loaded processes, and how many rooms they bear. */
export async function reportProcesses(say: (text: string) => void, signal: AbortSignal) {
  const { packets } = await encodePackets();
  say(`
| processes | rooms (of 5, 2 speak) | frames/s heard | lost | cores used of ${CORES} | CPU a frame | most rooms without loss |
| --- | --- | --- | --- | --- | --- | --- |
`);
  for (const { processes, rooms } of LOADS) {
    await using gateway = await Nodes.start(scenarioOf(rooms), 1, processes);
    const bear = (tried: number, ms: number) => measure(gateway, tried, ms, packets, signal);
    let measured = await bear(rooms, WINDOW_MS);
    if (isLate(measured)) measured = await bear(rooms, WINDOW_MS);
    const most = await findMost(rooms, (tried) => bear(tried, PROBE_WINDOW_MS));
    say(reportRow(processes, rooms, measured, most));
  }
}

/** Something else on the machine held us up. */
const isLate = ({ traffic }: Measured) => traffic.sentLateP99Ms > MAX_LATE_MS;

function reportRow(processes: number, rooms: number, measured: Measured, most: Most): string {
  const { traffic, cpuMs } = measured;
  const { seconds, framesIn, framesOut, lost } = traffic;
  const cells = [
    processes,
    rooms,
    (framesOut / seconds).toFixed(0),
    `${lost}${isLate(measured) ? ' †' : ''}`,
    (cpuMs / seconds / 1000).toFixed(2),
    `${((cpuMs * 1000) / (framesIn + framesOut)).toFixed(1)} µs`,
    `${most.rooms} to ${most.failedAt}${most.why}`,
  ];
  return `| ${cells.join(' | ')} |\n`;
}

type Most = { rooms: number; failedAt: number; why: string };

/** By halves, between what has been borne and what the account may have. */
async function findMost(borne: number, bear: (rooms: number) => Promise<Measured>): Promise<Most> {
  const most: Most = { rooms: borne, failedAt: MAX_ROOMS, why: '' };
  for (let probe = 0; probe < PROBES; probe += 1) {
    const rooms = Math.round((most.rooms + most.failedAt) / 2);
    const { traffic } = await bear(rooms);
    const isLossy = traffic.lost > LOST_SHARE * traffic.framesOut;
    if (!isLossy) most.rooms = rooms;
    else Object.assign(most, { failedAt: rooms, why: whyLost(traffic) });
  }
  return most;
}

/** The generator has to have a core: where the processes leave it none, it is no fault of theirs alone. */
const whyLost = ({ lost, framesOut, sentLateP99Ms }: Traffic) =>
  `, where ${((100 * lost) / (lost + framesOut)).toFixed(1)} % is lost and the generator ${sentLateP99Ms.toFixed(0)} ms late`;

async function measure(
  gateway: Nodes,
  rooms: number,
  ms: number,
  packets: Buffer[],
  signal: AbortSignal,
): Promise<Measured> {
  const address = (room: number, peer: number) => gateway.address(room, peer);
  const load = await Load.connect(scenarioOf(rooms), packets, address);
  try {
    load.speak();
    await sleep(WARM_UP_MS, undefined, { signal });
    load.beginWindow();
    const before = gateway.cpuMs();
    await sleep(ms, undefined, { signal });
    const cpuMs = gateway.cpuMs() - before;
    load.endWindow();
    load.hush();
    await sleep(DRAIN_MS, undefined, { signal });
    return { traffic: load.traffic(), cpuMs };
  } finally {
    load.close();
  }
}
