import { setTimeout as sleep } from 'node:timers/promises';
import { CYCLE_MS, encodeBurst, encodeQuietTalk } from './burst.ts';
import { EAR_ROOMS, type EarLatency, EarRoom, type EarSound, type Manner } from './ear-room.ts';
import { met } from './goals.ts';
import { janusSettings, type Server, startGateway, type StartServer } from './latency-servers.ts';
import { Pacing } from './pacing.ts';
import { encodePackets } from './packets.ts';
import { quantile } from './percentiles.ts';
import { MAX_LATE_MS } from './row.ts';
import { mixed } from './scenario.ts';

const CYCLES = 24;
/** Time after which the code of a new process is compiled and jitter buffers have settled, ms. */
const WARM_UP_MS = 10_000;
/** Time for packets that are still on their way, ms. */
const DRAIN_MS = 500;
/** Minimum CPU of a busy server, % of a core: below it, the measurement is repeated with more rooms. */
const LEAST_CPU_PERCENT = 60;
/** CPU to which background rooms bring a busy server, % of a core. */
const TARGET_CPU_PERCENT = 65;
const CALIBRATION_ROOMS = 20;
const CALIBRATION_MS = 4000;
/** Maximum number of background rooms, of 5 peers each: the demo account has 500 connections. */
const MAX_ROOMS = 90;

/**
 * Rows of the table: how the speakers of each room send, and the goals (p50 and p99, ms) for an idle server and for one
 * with background rooms.
 */
const SETUPS: {
  name: string;
  manners: Manner[];
  /** True if packets are forwarded, which a server that only mixes cannot do. */
  isForwarded: boolean;
  goals: Record<'quiet' | 'busy', [number, number]>;
}[] = [
  {
    name: 'forwarded',
    manners: ['bursts'],
    isForwarded: true,
    goals: { quiet: [1, 5], busy: [1, 5] },
  },
  {
    name: 'mixed',
    manners: ['bursts', 'bursts', 'bursts'],
    isForwarded: false,
    goals: { quiet: [18, 35], busy: [22, 45] },
  },
  {
    name: 'mixed after a pause',
    manners: ['words', 'quiet', 'quiet'],
    isForwarded: false,
    goals: { quiet: [18, 35], busy: [22, 45] },
  },
];
type Setup = (typeof SETUPS)[number];
/** Maximum p50 of any speaker of a mix in an idle server, ms. */
const SLOWEST_GOAL_MS = 24;

type Sound = EarSound & { talk: Buffer[] };
type Measured = {
  rooms: number;
  sent: number;
  latencies: EarLatency[];
  cpuPercent: number;
  lateP99Ms: number;
};

/**
 * Reports a row for each setup with an idle gateway, and one with a busy gateway. Further columns are for Janus, which
 * mixes everything.
 */
export async function reportLatency(print: (text: string) => void, signal: AbortSignal) {
  const { packets: talk } = await encodePackets();
  const [one, three] = [await encodeBurst(), await encodeBurst(3)];
  const sound = { one, three, quiet: await encodeQuietTalk(), talk };
  const ours = await openMeter(startGateway, sound, signal);
  const rivals = [];
  for (const { name, start } of janusSettings()) {
    rivals.push({ name, meter: await openMeter(start, sound, signal) });
  }
  const names = rivals.map(({ name }) => ` ${name} |`).join('');
  print(`
| mouth to ear | rooms behind (5 peers, 2 speak) | gateway CPU | bursts heard | p50 / p99 | slowest speaker p50 | goal | | generator late p99 |${names}
| --- | --- | --- | --- | --- | --- | --- | --- | --- |${rivals.map(() => ' --- |').join('')}
`);
  for (const setup of SETUPS) {
    const rows = (await ours(setup)).map((measured) => reportRow(setup, measured));
    for (const { meter } of rivals) {
      const cells = setup.isForwarded ? ['–', '–'] : (await meter(setup)).map(reportRival);
      for (const [i, row] of rows.entries()) row.push(cells[i]!);
    }
    for (const row of rows) print(`| ${row.join(' | ')} |\n`);
  }
  print(FOOT);
}

/** Measures a setup with an idle server, and with one that has as many background rooms as the target load allows. */
type Meter = (setup: Setup) => Promise<[idle: Measured, busy: Measured]>;

async function openMeter(start: StartServer, sound: Sound, signal: AbortSignal): Promise<Meter> {
  const cpuPercentARoom = await measureBackground(start, sound.talk, signal);
  const measure = (setup: Setup, rooms: number) =>
    measureQuietly(start, setup, rooms, sound, signal);
  return async (setup) => {
    const idle = await measure(setup, 0);
    const sparePercent = TARGET_CPU_PERCENT - idle.cpuPercent;
    const rooms = roomsOf(sparePercent / cpuPercentARoom);
    const busy = await measure(setup, rooms);
    const roomsPercent = busy.cpuPercent - idle.cpuPercent;
    if (busy.cpuPercent >= LEAST_CPU_PERCENT || roomsPercent <= 0) return [idle, busy];
    // The cost of a room falls with the number of rooms.
    return [idle, await measure(setup, roomsOf((rooms * sparePercent) / roomsPercent))];
  };
}

const FOOT = `
Latency is the time from the moment at which a speaker's client sends the frame with the onset of a burst to the moment at which a listener
receives the frame with this onset, plus the difference between the onset's offsets in the two frames; ${EAR_ROOMS} rooms. *Mixed*: three speakers send
all the time, each at a random phase of the 20 ms, and send bursts in turn. *Mixed after a pause*: one speaker sends nothing for 680 ms and then a
burst, while two others talk quietly. Janus is its AudioBridge with participants on plain RTP, with the smallest buffer that works and with its default
of six packets; as many background rooms as bring it to the same CPU are added (cells: background rooms, CPU, p50 / p99).
† Other load on the machine delayed the generator by more than ${MAX_LATE_MS} ms: do not rely on this row.
`;

function reportRow(setup: Setup, measured: Measured): string[] {
  const { rooms, sent, latencies, lateP99Ms } = measured;
  const [p50Ms, p99Ms] = [quantileOf(latencies, 0.5), quantileOf(latencies, 0.99)];
  const speakers = Object.values(Object.groupBy(latencies, ({ speaker }) => speaker));
  const slowestMs = Math.max(...speakers.map((ofSpeaker) => quantileOf(ofSpeaker ?? [], 0.5)));
  const [goalP50Ms, goalP99Ms] = setup.goals[rooms === 0 ? 'quiet' : 'busy'];
  const isMet =
    latencies.length === sent &&
    p50Ms <= goalP50Ms &&
    p99Ms <= goalP99Ms &&
    (rooms > 0 || slowestMs <= SLOWEST_GOAL_MS);
  return [
    setup.name,
    String(rooms),
    `${measured.cpuPercent.toFixed(0)} %`,
    `${latencies.length} of ${sent}`,
    `${p50Ms.toFixed(1)} / ${p99Ms.toFixed(1)} ms`,
    `${slowestMs.toFixed(1)} ms`,
    `${goalP50Ms} / ${goalP99Ms} ms`,
    met(isMet),
    `${lateP99Ms.toFixed(1)} ms${lateP99Ms > MAX_LATE_MS ? ' †' : ''}`,
  ];
}

function reportRival({ rooms, cpuPercent, sent, latencies, lateP99Ms }: Measured): string {
  const [p50Ms, p99Ms] = [quantileOf(latencies, 0.5), quantileOf(latencies, 0.99)];
  const heard = latencies.length === sent ? '' : ` (${latencies.length} of ${sent} heard)`;
  const late = lateP99Ms > MAX_LATE_MS ? ' †' : '';
  return `${rooms}, ${cpuPercent.toFixed(0)} %, ${p50Ms.toFixed(1)} / ${p99Ms.toFixed(1)} ms${heard}${late}`;
}

const quantileOf = (latencies: EarLatency[], share: number) =>
  quantile(
    latencies.map(({ ms }) => ms).toSorted((a, b) => a - b),
    share,
  );

const roomsOf = (wanted: number) => Math.min(MAX_ROOMS, Math.max(1, Math.round(wanted)));

const background = (rooms: number) => mixed(rooms, 5, 2);

/** Measures the CPU of one background room, in % of a core. */
async function measureBackground(
  start: StartServer,
  talk: Buffer[],
  signal: AbortSignal,
): Promise<number> {
  const server = await start(background(CALIBRATION_ROOMS));
  await using measured = server.process;
  const load = await server.fill(talk);
  try {
    load.speak();
    await sleep(WARM_UP_MS, undefined, { signal });
    return (await cpuPercentDuring(CALIBRATION_MS, measured, signal)) / CALIBRATION_ROOMS;
  } finally {
    load.close();
  }
}

/** Measures the CPU of Node and the media workers, or of Janus, in % of a core. */
async function cpuPercentDuring(ms: number, measured: Server['process'], signal: AbortSignal) {
  const [startMs, before] = [performance.now(), measured.cpuMs()];
  await sleep(ms, undefined, { signal });
  const after = measured.cpuMs();
  const cpuMs = after.main - before.main + after.mediaWorkers - before.mediaWorkers;
  return (100 * cpuMs) / (performance.now() - startMs);
}

/** Repeats the measurement once if other load on the machine held it up. */
async function measureQuietly(...what: Parameters<typeof measureLatency>): Promise<Measured> {
  const measured = await measureLatency(...what);
  return measured.lateP99Ms > MAX_LATE_MS ? measureLatency(...what) : measured;
}

async function measureLatency(
  start: StartServer,
  setup: Setup,
  rooms: number,
  sound: Sound,
  signal: AbortSignal,
): Promise<Measured> {
  const server = await start(background(rooms));
  await using measured = server.process;
  const load = await server.fill(sound.talk);
  const pacing = new Pacing();
  const ears: EarRoom[] = [];
  try {
    for (let room = 0; room < EAR_ROOMS; room += 1) {
      ears.push(await EarRoom.open(setup.manners, room, sound, pacing, server.enter));
    }
    load.speak();
    pacing.start();
    await sleep(WARM_UP_MS, undefined, { signal });
    pacing.isCounting = true;
    for (const room of ears) room.isCounting = true;
    const cpuPercent = await cpuPercentDuring(CYCLES * CYCLE_MS, measured, signal);
    for (const room of ears) room.isCounting = false;
    const lateP99Ms = pacing.lateP99Ms;
    await sleep(DRAIN_MS, undefined, { signal });
    pacing.stop();
    load.hush();
    return {
      rooms,
      sent: ears.reduce((sum, { sent }) => sum + sent.length, 0),
      latencies: (await Promise.all(ears.map((room) => room.latencies()))).flat(),
      cpuPercent,
      lateP99Ms,
    };
  } finally {
    pacing.stop();
    load.close();
    for (const room of ears) room.close();
  }
}
