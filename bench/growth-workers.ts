import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Router, Worker } from 'mediasoup/types';
import { LOOPBACK, LOOPBACK_LISTEN_INFO } from '../src/media/loopback.ts';
import { PlainLeg } from '../src/media/plain-leg.ts';
import { ALL_CORES, Child, CORES, PINNING } from './child.ts';
import { openRouter, openSpeaker, type RtpSpeaker, startMediaWorkers } from './media-workers.ts';
import { FRAME_MS, Pacing } from './pacing.ts';
import { cpuMs } from './process-stats.ts';

/**
 * Numbers of speakers and of listeners of a room. The generator sends one packet for every fifty that a media
 * worker sends, so that its own CPU hardly matters.
 */
const SPEAKERS = 10;
const LISTENERS = 50;
const PACKET_BYTES = 81;
const PACKETS_PER_S_A_ROOM = (SPEAKERS * LISTENERS * 1000) / FRAME_MS;
const WARM_UP_MS = 1500;
const WINDOW_MS = 3000;
const CALIBRATION_ROOMS = 2;
/** Offered load, as a multiple of what the media workers, or all cores, could bear. */
const OVERLOAD = 1.2;
const WORKERS = [1, 2, 4];
const SINK = fileURLToPath(new URL('sink.ts', import.meta.url));
/** SRTP crypto suite that browsers and mediasoup agree on. */
const CRYPTO_SUITE = 'AEAD_AES_256_GCM';
const KEY_AND_SALT_BYTES = 44;
/** Idle share of a core below which the core counts as fully used. */
const LEAST_LEFT = 0.1;

type Forwarded = {
  offered: number;
  packetsPerS: number;
  /** Cores that the media workers used. */
  cores: number;
  /** Idle share of the cores on which the media workers may run, cores. */
  coresLeft: number;
  usAPacket: number;
};

/**
 * Measures the packets that media workers forward to browsers, by the number of workers, while they are
 * offered more than they can bear.
 */
export async function reportWorkers(print: (text: string) => void, signal: AbortSignal) {
  print(`
| media workers | offered | forwarded | cores used | CPU a packet | times one |
| --- | --- | --- | --- | --- | --- |
`);
  const light = await measure(1, CALIBRATION_ROOMS, signal);
  print(reportRow('1, not busy', light));
  const roomsACore = (OVERLOAD * CALIBRATION_ROOMS) / light.cores;
  let one: Forwarded | undefined;
  for (const workers of WORKERS) {
    const rooms = Math.ceil(roomsACore * Math.min(workers, CORES));
    const measured = await measure(workers, rooms, signal);
    one ??= measured;
    print(reportRow(String(workers), measured, one));
  }
}

function reportRow(name: string, measured: Forwarded, one?: Forwarded): string {
  const { offered, packetsPerS, cores, coresLeft, usAPacket } = measured;
  const left = coresLeft < LEAST_LEFT ? 'used up' : `${coresLeft.toFixed(2)} left`;
  const cells = [
    name,
    `${offered.toFixed(0)} /s`,
    `${packetsPerS.toFixed(0)} /s`,
    `${cores.toFixed(2)}, ${left}`,
    `${usAPacket.toFixed(2)} µs`,
    one ? (packetsPerS / one.packetsPerS).toFixed(2) : '',
  ];
  return `| ${cells.join(' | ')} |\n`;
}

async function measure(workers: number, rooms: number, signal: AbortSignal): Promise<Forwarded> {
  await using opened = new AsyncDisposableStack();
  // One media worker alone must not share a core with the generator.
  const where = workers === 1 ? String(PINNING?.measured) : ALL_CORES;
  const pool = await startMediaWorkers(workers, where, opened);
  const sink = new Child('the sink', [process.execPath, SINK]);
  opened.defer(() => sink.stop());
  const { port: sinkPort } = await sink.ready();
  const pacing = new Pacing();
  opened.defer(() => pacing.stop());
  const sendsByRoom = await Promise.all(
    Array.from({ length: rooms }, (_, room) => openRoom(pool[room % workers]!, Number(sinkPort))),
  );
  for (const [room, sends] of sendsByRoom.entries()) {
    for (const [index, send] of sends.entries()) pacing.add(room + index, send);
  }
  pacing.start();
  await sleep(WARM_UP_MS, undefined, { signal });
  const cpu = () => pool.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
  const dropped = () => countDropped(Number(sinkPort));
  const [startMs, cpuBefore, idleBefore] = [performance.now(), cpu(), idleMs(workers)];
  const before = dropped();
  await sleep(WINDOW_MS, undefined, { signal });
  const [ms, usedMs, packets] = [
    performance.now() - startMs,
    cpu() - cpuBefore,
    dropped() - before,
  ];
  return {
    offered: rooms * PACKETS_PER_S_A_ROOM,
    packetsPerS: (packets * 1000) / ms,
    cores: usedMs / ms,
    coresLeft: (idleMs(workers) - idleBefore) / ms,
    usAPacket: (usedMs * 1000) / packets,
  };
}

/** Returns the idle time of the cores: one media worker has a core to itself, several share all of them. */
function idleMs(workers: number): number {
  const all = cpus();
  const own = workers === 1 && PINNING ? all.slice(PINNING.measured, PINNING.measured + 1) : all;
  return own.reduce((sum, { times }) => sum + times.idle, 0);
}

/**
 * Opens a room in which every peer hears every speaker.
 * @returns one function for each speaker, which sends a packet
 */
async function openRoom(worker: Worker, sinkPort: number): Promise<(() => void)[]> {
  const router = await openRouter(worker);
  const leg = await PlainLeg.open(router, async () => {});
  router.observer.once('close', () => leg.close());
  const speakers: RtpSpeaker[] = [];
  while (speakers.length < SPEAKERS) speakers.push(await openSpeaker(leg));
  for (let listener = 0; listener < LISTENERS; listener += 1) {
    await openListener(router, speakers, sinkPort);
  }
  const payload = randomBytes(PACKET_BYTES);
  return speakers.map((speaker) => () => speaker.send(payload));
}

/** Opens a listener like a browser: with an encrypted transport of its own. */
async function openListener(router: Router, speakers: RtpSpeaker[], port: number): Promise<void> {
  const transport = await router.createPlainTransport({
    listenInfo: LOOPBACK_LISTEN_INFO,
    rtcpMux: true,
    enableSrtp: true,
    srtpCryptoSuite: CRYPTO_SUITE,
  });
  const keyBase64 = randomBytes(KEY_AND_SALT_BYTES).toString('base64');
  const srtpParameters = { cryptoSuite: CRYPTO_SUITE, keyBase64 } as const;
  await transport.connect({ ip: LOOPBACK, port, srtpParameters });
  const { rtpCapabilities } = router;
  await Promise.all(
    speakers.map(({ id: producerId }) => transport.consume({ producerId, rtpCapabilities })),
  );
}

/**
 * Returns the number of packets that the kernel dropped at the full buffer of the sink. Asking a busy media
 * worker would take long.
 */
function countDropped(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const lines = readFileSync('/proc/net/udp', 'utf8').split('\n');
  const line = lines.find((text) => text.trim().split(/\s+/)[1]?.endsWith(local));
  return Number(line?.trim().split(/\s+/).at(-1));
}
