import { setTimeout as sleep } from 'node:timers/promises';
import { CYCLE_MS, encodeBurst, encodeQuietTalk } from './burst.ts';
import { EAR_ROOMS, type EarLatency, EarRoom, type EarSound, type Manner } from './ear-room.ts';
import { GatewayProcess } from './gateway-process.ts';
import { met } from './goals.ts';
import { Load } from './load.ts';
import { Pacing } from './pacing.ts';
import { encodePackets } from './packets.ts';
import { quantile } from './percentiles.ts';
import { MAX_LATE_MS } from './row.ts';
import type { Scenario } from './scenario.ts';

const CYCLES = 24;
const WARM_UP_MS = 4000;
/** For what is still on its way. */
const DRAIN_MS = 500;
/** Loads for which the goals of a busy gateway are set, and the goals. */
const LEAST_CPU_PERCENT = 60;
const TARGET_CPU_PERCENT = 65;
const CALIBRATION_ROOMS = 20;
const CALIBRATION_MS = 4000;
/** The demo account has 500 connections. */
const MAX_ROOMS = 90;

/** Rows of the table: how the speakers of each room send, and the goals: p50 / p99 in ms, in quiet and beside others. */
const WAYS: {
  name: string;
  manners: Manner[];
  goals: Record<'quiet' | 'busy', [number, number]>;
}[] = [
  { name: 'forwarded', manners: ['bursts'], goals: { quiet: [1, 5], busy: [1, 5] } },
  {
    name: 'mixed',
    manners: ['bursts', 'bursts', 'bursts'],
    goals: { quiet: [18, 35], busy: [22, 45] },
  },
  {
    name: 'mixed after a pause',
    manners: ['words', 'quiet', 'quiet'],
    goals: { quiet: [18, 35], busy: [22, 45] },
  },
];
type Way = (typeof WAYS)[number];
/** No speaker of a mix takes longer in quiet, p50 in ms. */
const SLOWEST_GOAL_MS = 24;

type Sound = EarSound & { talk: Buffer[] };
type Measured = { sent: number; latencies: EarLatency[]; cpuPercent: number; lateP99Ms: number };

/** A row for each way, in a gateway that has nothing else to do and in one that is busy. */
export async function reportLatency(say: (text: string) => void, signal: AbortSignal) {
  const { packets: talk } = await encodePackets();
  const [one, three] = [await encodeBurst(), await encodeBurst(3)];
  const sound = { one, three, quiet: await encodeQuietTalk(), talk };
  const cpuPercentARoom = await measureBackground(talk, signal);
  say(`
| mouth to ear | rooms behind (5 peers, 2 speak) | gateway CPU | bursts heard | p50 / p99 | slowest speaker p50 | goal | | generator late p99 |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
`);
  for (const way of WAYS) {
    const idle = await measureQuietly(way, background(0), sound, signal);
    say(reportRow(way, 0, idle));
    const spare = TARGET_CPU_PERCENT - idle.cpuPercent;
    let rooms = roomsOf(spare / cpuPercentARoom);
    let busy = await measureQuietly(way, background(rooms), sound, signal);
    if (busy.cpuPercent < LEAST_CPU_PERCENT) {
      // The more there are, the less each takes.
      rooms = roomsOf((rooms * spare) / (busy.cpuPercent - idle.cpuPercent));
      busy = await measureQuietly(way, background(rooms), sound, signal);
    }
    say(reportRow(way, rooms, busy));
  }
  say(FOOT);
}

const FOOT = `
From a client's send of the binary frame that holds the onset of a burst to another's receipt of the frame that holds it,
with the onset's place in either; ${EAR_ROOMS} rooms. Mixed: three send all the time, each at a random phase of the 20 ms, and burst out in
turn; after a pause: one sends nothing for 680 ms, then a burst, while two others talk quietly.
† Something else held the generator up by more than ${MAX_LATE_MS} ms: this row is not to be relied on.
`;

function reportRow(way: Way, rooms: number, measured: Measured): string {
  const { sent, latencies, lateP99Ms } = measured;
  const [p50Ms, p99Ms] = [0.5, 0.99].map((share) => quantileOf(latencies, share)) as [
    number,
    number,
  ];
  const speakers = Object.values(Object.groupBy(latencies, ({ speaker }) => speaker));
  const slowestMs = Math.max(...speakers.map((ofSpeaker) => quantileOf(ofSpeaker ?? [], 0.5)));
  const [goalP50Ms, goalP99Ms] = way.goals[rooms === 0 ? 'quiet' : 'busy'];
  const isMet =
    latencies.length === sent &&
    p50Ms <= goalP50Ms &&
    p99Ms <= goalP99Ms &&
    (rooms > 0 || slowestMs <= SLOWEST_GOAL_MS);
  const cells = [
    way.name,
    rooms,
    `${measured.cpuPercent.toFixed(0)} %`,
    `${latencies.length} of ${sent}`,
    `${p50Ms.toFixed(1)} / ${p99Ms.toFixed(1)} ms`,
    `${slowestMs.toFixed(1)} ms`,
    `${goalP50Ms} / ${goalP99Ms} ms`,
    met(isMet),
    `${lateP99Ms.toFixed(1)} ms${lateP99Ms > MAX_LATE_MS ? ' †' : ''}`,
  ];
  return `| ${cells.join(' | ')} |\n`;
}

const quantileOf = (latencies: EarLatency[], share: number) =>
  quantile(
    latencies.map(({ ms }) => ms).toSorted((a, b) => a - b),
    share,
  );

const roomsOf = (wanted: number) => Math.min(MAX_ROOMS, Math.max(1, Math.round(wanted)));

const background = (rooms: number): Scenario => ({
  rooms,
  peers: 5,
  speakers: 2,
  delivery: 'mix',
  hear: 'opus',
});

/** Measures the CPU that a room behind takes, in % of a core. */
async function measureBackground(talk: Buffer[], signal: AbortSignal): Promise<number> {
  const scenario = background(CALIBRATION_ROOMS);
  await using gateway = await GatewayProcess.start(scenario);
  const load = await Load.connect(scenario, talk, (...place) => gateway.address(...place));
  try {
    load.speak();
    await sleep(WARM_UP_MS, undefined, { signal });
    return (await cpuPercentDuring(CALIBRATION_MS, gateway, signal)) / CALIBRATION_ROOMS;
  } finally {
    load.close();
  }
}

/** Measures the CPU of Node and the media workers, in % of a core. */
async function cpuPercentDuring(ms: number, gateway: GatewayProcess, signal: AbortSignal) {
  const [startMs, before] = [performance.now(), gateway.cpuMs()];
  await sleep(ms, undefined, { signal });
  const after = gateway.cpuMs();
  const cpuMs = after.main - before.main + after.mediaWorkers - before.mediaWorkers;
  return (100 * cpuMs) / (performance.now() - startMs);
}

/** Once more if something else on the machine held us up. */
async function measureQuietly(...what: Parameters<typeof measureLatency>): Promise<Measured> {
  const measured = await measureLatency(...what);
  return measured.lateP99Ms > MAX_LATE_MS ? measureLatency(...what) : measured;
}

async function measureLatency(
  way: Way,
  scenario: Scenario,
  sound: Sound,
  signal: AbortSignal,
): Promise<Measured> {
  await using gateway = await GatewayProcess.start(scenario);
  const load = await Load.connect(scenario, sound.talk, (...place) => gateway.address(...place));
  const pacing = new Pacing();
  const rooms: EarRoom[] = [];
  try {
    for (let room = 0; room < EAR_ROOMS; room += 1) {
      const address = (peer: number) => gateway.address(scenario.rooms + room, peer);
      rooms.push(await EarRoom.open(way.manners, room, sound, pacing, address));
    }
    load.speak();
    pacing.start();
    await sleep(WARM_UP_MS, undefined, { signal });
    pacing.isCounting = true;
    for (const room of rooms) room.isCounting = true;
    const cpuPercent = await cpuPercentDuring(CYCLES * CYCLE_MS, gateway, signal);
    for (const room of rooms) room.isCounting = false;
    const lateP99Ms = pacing.lateP99Ms;
    await sleep(DRAIN_MS, undefined, { signal });
    pacing.stop();
    load.hush();
    return {
      sent: rooms.reduce((sum, { sent }) => sum + sent.length, 0),
      latencies: (await Promise.all(rooms.map((room) => room.latencies()))).flat(),
      cpuPercent,
      lateP99Ms,
    };
  } finally {
    pacing.stop();
    load.close();
    for (const room of rooms) room.close();
  }
}
