import { setTimeout as sleep } from 'node:timers/promises';
import type { WebSocket } from 'ws';
import { CYCLE_FRAMES, CYCLE_MS, encodeBurst, encodeQuietTalk, findOnsets } from './burst.ts';
import { connectClient } from './client.ts';
import { GatewayProcess } from './gateway-process.ts';
import { met } from './goals.ts';
import { Load } from './load.ts';
import { measureCost } from './measure.ts';
import { Pacing } from './pacing.ts';
import { encodePackets } from './packets.ts';
import { quantile } from './percentiles.ts';
import { cpuPercent } from './row.ts';
import type { Scenario } from './scenario.ts';

/** In each room somebody bursts out, each at another phase of the 20 ms. */
const ROOMS = 5;
const PHASE_SLOTS = 2;
/** Who talks quietly meanwhile, where it is mixed, and in which slots after the burst's. */
const QUIET_SLOTS = [3, 7];
const CYCLES = 24;
const WARM_UP_MS = 4000;
/** For what is still on its way. */
const DRAIN_MS = 500;
const TARGET_CPU_PERCENT = 65;
const CALIBRATION_ROOMS = 20;
const CALIBRATION_S = 4;
/** The demo account has 500 connections. */
const MAX_ROOMS = 90;
/** A listener may hear a burst so much before we noted that it was sent. */
const EARLY_MS = 5;

const GOALS = { forwarded: { p50Ms: 8, p99Ms: 20 }, mixed: { p50Ms: 40, p99Ms: 65 } };
type Way = keyof typeof GOALS;

type Sound = { burst: Awaited<ReturnType<typeof encodeBurst>>; quiet: Buffer[]; talk: Buffer[] };
type Measured = { sent: number; latenciesMs: number[]; cpuPercent: number; lateP99Ms: number };

/** A row for each way, in a gateway that has nothing else to do and in one that is busy. */
export async function reportLatency(say: (text: string) => void, signal: AbortSignal) {
  const { packets: talk } = await encodePackets();
  const sound = { burst: await encodeBurst(), quiet: await encodeQuietTalk(), talk };
  say(`
| mouth to ear | rooms behind (5 peers, 2 speak) | gateway CPU | bursts heard | p50 / p99 | goal | | generator late p99 |
| --- | --- | --- | --- | --- | --- | --- | --- |
`);
  for (const rooms of [0, await findBusyRooms(talk, signal)]) {
    for (const way of ['forwarded', 'mixed'] as const) {
      say(reportRow(way, rooms, await measureLatency(way, background(rooms), sound, signal)));
    }
  }
}

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
    `${lateP99Ms.toFixed(1)} ms`,
  ];
  return `| ${cells.join(' | ')} |\n`;
}

const background = (rooms: number): Scenario => ({
  rooms,
  peers: 5,
  speakers: 2,
  delivery: 'mix',
  hear: 'opus',
});

/** How many rooms keep the gateway busy for about two thirds of its core. */
async function findBusyRooms(packets: Buffer[], signal: AbortSignal): Promise<number> {
  const { gateway } = await measureCost(
    background(CALIBRATION_ROOMS),
    { seconds: CALIBRATION_S, packets, signal },
    { withFloor: false, profileDir: undefined },
  );
  const rooms = (TARGET_CPU_PERCENT / cpuPercent(gateway)) * CALIBRATION_ROOMS;
  return Math.min(MAX_ROOMS, Math.round(rooms) - ROOMS);
}

async function measureLatency(
  way: Way,
  scenario: Scenario,
  sound: Sound,
  signal: AbortSignal,
): Promise<Measured> {
  await using gateway = await GatewayProcess.start(scenario);
  const address = (room: number, peer: number) => gateway.address(room, peer);
  const load = await Load.connect(scenario, sound.talk, address);
  const pacing = new Pacing();
  const rooms: EarRoom[] = [];
  try {
    for (let room = 0; room < ROOMS; room += 1) {
      rooms.push(
        await EarRoom.open(way, room, sound, pacing, (peer) =>
          gateway.address(scenario.rooms + room, peer),
        ),
      );
    }
    load.speak();
    pacing.start();
    await sleep(WARM_UP_MS, undefined, { signal });
    const [startMs, cpuBefore] = [performance.now(), gateway.cpuMs()];
    pacing.isCounting = true;
    for (const room of rooms) room.isCounting = true;
    await sleep(CYCLES * CYCLE_MS, undefined, { signal });
    for (const room of rooms) room.isCounting = false;
    const [ms, cpuAfter] = [performance.now() - startMs, gateway.cpuMs()];
    const lateP99Ms = pacing.lateP99Ms;
    await sleep(DRAIN_MS, undefined, { signal });
    pacing.stop();
    load.hush();
    const cpuMs = cpuAfter.main - cpuBefore.main + cpuAfter.mediaWorkers - cpuBefore.mediaWorkers;
    return {
      sent: rooms.reduce((sum, { sentMs }) => sum + sentMs.length, 0),
      latenciesMs: (await Promise.all(rooms.map((room) => room.latenciesMs()))).flat(),
      cpuPercent: (100 * cpuMs) / ms,
      lateP99Ms,
    };
  } finally {
    pacing.stop();
    load.close();
    for (const room of rooms) room.close();
  }
}

/** Somebody who bursts out, maybe two who talk quietly, and a listener. */
class EarRoom {
  /** Notes what is sent while this is set. */
  isCounting = false;
  /** When each onset would have been heard without any delay. */
  readonly sentMs: number[] = [];
  readonly #heard: { frame: Buffer; atMs: number }[] = [];
  readonly #sockets: WebSocket[] = [];

  static async open(
    way: Way,
    number: number,
    { burst, quiet }: Sound,
    pacing: Pacing,
    address: (peer: number) => URL,
  ): Promise<EarRoom> {
    const room = new EarRoom();
    const slot = number * PHASE_SLOTS;
    const mouth = await room.#enter(address(0));
    let frame = number * (CYCLE_FRAMES / ROOMS);
    pacing.add(slot, () => {
      room.#noteOnset(frame % CYCLE_FRAMES, burst.onset);
      mouth.send(burst.packets[frame % CYCLE_FRAMES]!);
      frame += 1;
    });
    const others = way === 'mixed' ? QUIET_SLOTS : [];
    for (const [index, slotsLater] of others.entries()) {
      const other = await room.#enter(address(1 + index));
      let next = index * 100;
      pacing.add(slot + slotsLater, () => {
        other.send(quiet[next % quiet.length]!);
        next += 1;
      });
    }
    const hear = (bytes: Buffer) => room.#heard.push({ frame: bytes, atMs: performance.now() });
    await room.#enter(address(1 + others.length), hear);
    return room;
  }

  /** From each onset's sending to its receipt; onsets that were not heard are left out. */
  async latenciesMs(): Promise<number[]> {
    const onsets = await findOnsets(this.#heard.map(({ frame }) => frame));
    const heardMs = onsets.map(({ frame, offsetMs }) => this.#heard[frame]!.atMs + offsetMs);
    return this.sentMs.flatMap((sentMs) => {
      const found = heardMs.find(
        (atMs) => atMs > sentMs - EARLY_MS && atMs < sentMs + CYCLE_MS - EARLY_MS,
      );
      return found === undefined ? [] : [found - sentMs];
    });
  }

  close(): void {
    for (const socket of this.#sockets) socket.terminate();
  }

  async #enter(address: URL, onFrame: (frame: Buffer) => void = () => {}): Promise<WebSocket> {
    const socket = await connectClient(address, onFrame);
    this.#sockets.push(socket);
    return socket;
  }

  #noteOnset(frame: number, onset: { frame: number; offsetMs: number }): void {
    if (this.isCounting && frame === onset.frame) {
      this.sentMs.push(performance.now() + onset.offsetMs);
    }
  }
}
