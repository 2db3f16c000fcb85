import { setTimeout as sleep } from 'node:timers/promises';
import { createAccount } from './ask-operator.ts';
import { CORES } from './child.ts';
import { findMost, type Most } from './find-most.ts';
import { Load, type Traffic } from './load.ts';
import { Nodes } from './nodes.ts';
import { encodePackets } from './packets.ts';
import { MAX_LATE_MS } from './row.ts';
import { mixed } from './scenario.ts';

/** Numbers of processes and rooms: 6 rooms for each process, then 12. */
const LOADS = [
  { processes: 1, rooms: 6 },
  { processes: 2, rooms: 12 },
  { processes: 4, rooms: 24 },
  { processes: 1, rooms: 12 },
  { processes: 2, rooms: 24 },
] as const;

/** Largest number of rooms that is tried. */
const MAX_ROOMS = 400;
/** Rooms of an account, which may have 500 connections. */
const ROOMS_OF_ACCOUNT = 100;
const WARM_UP_MS = 1500;
const WINDOW_MS = 3000;
const PROBE_WINDOW_MS = 1500;
const DRAIN_MS = 200;
/** Maximum share of lost frames that does not count as loss. */
const LOST_SHARE = 0.001;

type Measured = { traffic: Traffic; cpuMs: number };

const scenarioOf = (rooms: number) => mixed(rooms, 5, 2);

/** Measures the cost of a frame with several equally loaded processes, and the highest number of rooms without loss. */
export async function reportProcesses(print: (text: string) => void, signal: AbortSignal) {
  const { packets } = await encodePackets();
  print(`
| processes | rooms (of 5, 2 speak) | frames/s heard | lost | cores used of ${CORES} | CPU a frame | most rooms without loss |
| --- | --- | --- | --- | --- | --- | --- |
`);
  for (const { processes, rooms } of LOADS) {
    await using gateway = await Nodes.start(scenarioOf(rooms), 1, processes);
    const bear = (tried: number, ms: number) => measure(gateway, tried, ms, packets, signal);
    let measured = await bear(rooms, WINDOW_MS);
    if (isLate(measured)) measured = await bear(rooms, WINDOW_MS);
    const first = { load: rooms, loss: lossOf(measured.traffic) };
    const most = await findMost(first, MAX_ROOMS, (tried) => lossTwice(tried, bear));
    print(reportRow(processes, rooms, measured, most));
  }
}

/** Returns true if other load on the machine delayed the generator. */
const isLate = ({ traffic }: Measured) => traffic.sentLateP99Ms > MAX_LATE_MS;

function reportRow(
  processes: number,
  rooms: number,
  measured: Measured,
  most: Most<string>,
): string {
  const { traffic, cpuMs } = measured;
  const { seconds, framesIn, framesOut, lost } = traffic;
  const cells = [
    processes,
    rooms,
    (framesOut / seconds).toFixed(0),
    `${lost}${isLate(measured) ? ' †' : ''}`,
    (cpuMs / seconds / 1000).toFixed(2),
    `${((cpuMs * 1000) / (framesIn + framesOut)).toFixed(1)} µs`,
    describeMost(most),
  ];
  return `| ${cells.join(' | ')} |\n`;
}

/** Returns the loss of frames under a load; undefined if one of two tries lost no more than LOST_SHARE. */
async function lossTwice(
  rooms: number,
  bear: (rooms: number, ms: number) => Promise<Measured>,
): Promise<string | undefined> {
  const { traffic } = await bear(rooms, PROBE_WINDOW_MS);
  // Other load on the machine may have caused the loss.
  return lossOf(traffic) && lossOf((await bear(rooms, PROBE_WINDOW_MS)).traffic);
}

/**
 * Returns the loss of frames, with the delay of the generator: frames are also lost if the processes leave it no core; undefined if
 * no more than LOST_SHARE are lost.
 */
function lossOf({ lost, framesOut, sentLateP99Ms }: Traffic): string | undefined {
  if (lost <= LOST_SHARE * framesOut) return undefined;
  const percent = (100 * lost) / (lost + framesOut);
  return `${percent.toFixed(1)} % is lost and the generator ${sentLateP99Ms.toFixed(0)} ms late`;
}

function describeMost({ borne, failed }: Most<string>): string {
  return failed ? `${borne}; at ${failed.at} ${failed.loss}` : `at least ${borne}`;
}

async function measure(
  gateway: Nodes,
  rooms: number,
  ms: number,
  packets: Buffer[],
  signal: AbortSignal,
): Promise<Measured> {
  // New accounts: no other window has used their budgets.
  const keys = await createAccounts(gateway.url(0), Math.ceil(rooms / ROOMS_OF_ACCOUNT));
  const address = (room: number, peer: number) => {
    const place = gateway.address(room, peer);
    place.searchParams.set('api_key', keys[Math.floor(room / ROOMS_OF_ACCOUNT)]!);
    return place;
  };
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

/** Makes accounts, and returns a key of each. */
async function createAccounts(url: string, count: number): Promise<string[]> {
  const accounts = Array.from({ length: count }, () => createAccount(url, 'pro'));
  return (await Promise.all(accounts)).map(({ api_key: key }) => key);
}
