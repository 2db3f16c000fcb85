import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayProcess } from './gateway-process.ts';
import { Load } from './load.ts';
import { FRAME_MS } from './pacing.ts';
import { encodePackets } from './packets.ts';
import { quantile } from './percentiles.ts';
import { mixed } from './scenario.ts';
import {
  listenAsBrowser,
  listenByWhep,
  type ListeningPlace,
  type SrtpListener,
} from './srtp-listener.ts';

type Way = 'browser' | 'WHEP';
type Row = { way: Way; speakers: number; listeners: number };

const ROWS: Row[] = [
  { way: 'browser', speakers: 1, listeners: 100 },
  { way: 'browser', speakers: 3, listeners: 50 },
  { way: 'WHEP', speakers: 1, listeners: 100 },
  { way: 'WHEP', speakers: 3, listeners: 100 },
];
const LISTEN: Record<Way, typeof listenAsBrowser> = {
  browser: listenAsBrowser,
  WHEP: listenByWhep,
};
const ROOM = 0;
/** Time until all code is compiled, ms. */
const WARM_UP_MS = 6000;
const WINDOW_MS = 8000;
const SETTLE_MS = 1000;

const COLUMNS = [
  'speakers → listeners',
  'by',
  'packets/s out',
  'delivered',
  'Node CPU',
  'media worker CPU',
  'media worker µs a packet',
  'packets/s a core of the media worker',
  'and of both',
  'memory a listener',
  'answered p50 / p99',
  'joined p50 / p99',
];
const tableLine = (cells: string[]) => `| ${cells.join(' | ')} |\n`;

/** Measures the cost of listeners over SRTP, and the time until they are in a room when all join at once. */
export async function reportWebRtc(print: (text: string) => void, signal: AbortSignal) {
  const { packets } = await encodePackets();
  print(`\n${tableLine(COLUMNS)}${tableLine(COLUMNS.map(() => '---'))}`);
  for (const row of ROWS) print(await measureRow(row, packets, signal));
  print(`
Listeners have real ICE and DTLS (werift, in the generator) and do not decrypt. All join at once: answered is the gateway's part, joined includes the
handshakes of all of them in one Node process. Speakers are WebSocket clients that send Opus. A browser hears a stream of each speaker, a player of WHEP one stream.
`);
}

async function measureRow(
  { way, speakers, listeners }: Row,
  packets: Buffer[],
  signal: AbortSignal,
): Promise<string> {
  const scenario = mixed(1, speakers, speakers);
  await using gateway = await GatewayProcess.start(scenario);
  const load = await Load.connect(scenario, packets, (room, peer) => gateway.address(room, peer));
  const opened: SrtpListener[] = [];
  try {
    load.speak();
    await sleep(SETTLE_MS, undefined, { signal });
    const idleKb = gateway.residentKb();
    const place: ListeningPlace = {
      url: gateway.url,
      key: gateway.apiKey,
      room: `room-${ROOM}`,
      speakers,
    };
    const joining = Array.from({ length: listeners }, (_, i) => LISTEN[way](place, `ear-${i}`));
    for (const listener of joining) opened.push(await listener);
    await sleep(WARM_UP_MS, undefined, { signal });
    const before = { ...gateway.cpuMs(), packets: countPackets(opened), ms: performance.now() };
    await sleep(WINDOW_MS, undefined, { signal });
    const after = { ...gateway.cpuMs(), packets: countPackets(opened), ms: performance.now() };
    const seconds = (after.ms - before.ms) / 1000;
    const count = after.packets - before.packets;
    const streams = way === 'browser' ? speakers : 1;
    const owed = (listeners * streams * seconds * 1000) / FRAME_MS;
    const workerMs = after.mediaWorkers - before.mediaWorkers;
    const mainMs = after.main - before.main;
    const times = (of: (listener: SrtpListener) => number) => {
      const sorted = opened.map(of).toSorted((a, b) => a - b);
      return `${quantile(sorted, 0.5).toFixed(0)} / ${quantile(sorted, 0.99).toFixed(0)} ms`;
    };
    return tableLine([
      `${speakers} → ${listeners}`,
      way,
      (count / seconds).toFixed(0),
      `${((100 * count) / owed).toFixed(1)} %`,
      `${(mainMs / seconds / 10).toFixed(1)} %`,
      `${(workerMs / seconds / 10).toFixed(1)} %`,
      ((1000 * workerMs) / count).toFixed(1),
      ((1000 * count) / workerMs).toFixed(0),
      ((1000 * count) / (workerMs + mainMs)).toFixed(0),
      `${((gateway.residentKb() - idleKb) / listeners).toFixed(0)} KB`,
      times(({ answeredMs }) => answeredMs),
      times(({ joinedMs }) => joinedMs),
    ]);
  } finally {
    load.close();
    await Promise.all(opened.map((listener) => listener.close()));
  }
}

const countPackets = (listeners: SrtpListener[]) =>
  listeners.reduce((sum, { packets }) => sum + packets, 0);
