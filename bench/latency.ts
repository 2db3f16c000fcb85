import { setTimeout as sleep } from 'node:timers/promises';
import { CYCLE_MS, encodeBurst, encodeQuietTalk } from './burst.ts';
import { EAR_ROOMS, EarRoom, type EarSound } from './ear-room.ts';
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

const GOALS = { forwarded: { p50Ms: 8, p99Ms: 20 }, mixed: { p50Ms: 40, p99Ms: 65 } };
type Way = keyof typeof GOALS;
const QUIET_SPEAKERS: Record<Way, number> = { forwarded: 0, mixed: 2 };

type Sound = EarSound & { talk: Buffer[] };
type Measured = { sent: number; latenciesMs: number[]; cpuPercent: number; lateP99Ms: number };

/** A row for each way, in a gateway that has nothing else to do and in one that is busy. */
export async function reportLatency(say: (text: string) => void, signal: AbortSignal) {
  const { packets: talk } = await encodePackets();
  const sound = { burst: await encodeBurst(), quiet: await encodeQuietTalk(), talk };
  const cpuPercentARoom = await measureBackground(talk, signal);
  say(`
| mouth to ear | rooms behind (5 peers, 2 speak) | gateway CPU | bursts heard | p50 / p99 | goal | | generator late p99 |
| --- | --- | --- | --- | --- | --- | --- | --- |
`);
  for (const way of ['forwarded', 'mixed'] as const) {
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
with the onset's place in either; ${EAR_ROOMS} rooms, each at another phase. Mixed: two others talk quietly all the time.
† Something else held the generator up by more than ${MAX_LATE_MS} ms: this row is not to be relied on.
`;

function reportRow(way: Way, rooms: number, measured: Measured): string {
  const { sent, latenciesMs, lateP99Ms } = measured;
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  const [p50Ms, p99Ms] = [quantile(sorted, 0.5), quantile(sorted, 0.99)];
  const goal = GOALS[way];
  const isMet = sorted.length === sent && p50Ms <= goal.p50Ms && p99Ms <= goal.p99Ms;
  const cells = [
    way,
    rooms,
    `${measured.cpuPercent.toFixed(0)} %`,
    `${sorted.length} of ${sent}`,
    `${p50Ms.toFixed(1)} / ${p99Ms.toFixed(1)} ms`,
    `${goal.p50Ms} / ${goal.p99Ms} ms`,
    met(isMet),
    `${lateP99Ms.toFixed(1)} ms${lateP99Ms > MAX_LATE_MS ? ' †' : ''}`,
  ];
  return `| ${cells.join(' | ')} |\n`;
}

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
      rooms.push(await EarRoom.open(QUIET_SPEAKERS[way], room, sound, pacing, address));
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
      sent: rooms.reduce((sum, { sentMs }) => sum + sentMs.length, 0),
      latenciesMs: (await Promise.all(rooms.map((room) => room.latenciesMs()))).flat(),
      cpuPercent,
      lateP99Ms,
    };
  } finally {
    pacing.stop();
    load.close();
    for (const room of rooms) room.close();
  }
}
