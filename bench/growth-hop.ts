import { setTimeout as sleep } from 'node:timers/promises';
import type { Producer, Router, Worker } from 'mediasoup/types';
import { NodePipe } from '../src/media/node-pipe.ts';
import { Pipe } from '../src/media/pipe.ts';
import { PlainLeg } from '../src/media/plain-leg.ts';
import { parseRtpPacket } from '../src/rtp/packet.ts';
import { PINNING } from './child.ts';
import { openRouter, openSpeaker, startMediaWorkers } from './media-workers.ts';
import { Pacing } from './pacing.ts';
import { quantile } from './percentiles.ts';
import { cpuMs } from './process-stats.ts';

const SPEAKERS = 100;
const PACKET_BYTES = 81;
/** Number of turns of each path. The paths take turns, so that noise on the machine does not affect only one of them. */
const TURNS = 3;
const TURN_MS = 1500;
const SETTLE_MS = 300;
const ADDRESS = { ip: '127.0.0.1' };
const PORT_RANGE = { min: 20_000, max: 29_999 };

/** Makes a producer of the first router available on the second, under the same id. */
type Connect = (near: Router, far: Router) => Promise<(producer: Producer) => Promise<void>>;

const PATHS: { name: string; connect: Connect | undefined }[] = [
  { name: 'none: one media worker', connect: undefined },
  { name: 'between two media workers of a process', connect: connectWorkers },
  { name: 'between two nodes, SRTP', connect: connectNodes },
];

/** Measures the cost of a pipe between two media workers, and the delay that it adds. */
export async function reportHop(print: (text: string) => void, signal: AbortSignal) {
  print(`
| pipe hop | media worker CPU a packet | of it the hop | latency p50 / p99 | of it the hop |
| --- | --- | --- | --- | --- |
`);
  await using opened = new AsyncDisposableStack();
  const cores = String(PINNING?.measured);
  const [here, there] = await startMediaWorkers(2, cores, opened);
  if (!here || !there) throw new Error('media workers not started');
  const paths: Path[] = [];
  for (const { name, connect } of PATHS) paths.push(await Path.open(name, here, there, connect));
  opened.defer(() => paths.forEach((path) => path.close()));
  const cpu = () => cpuMs(here.pid) + cpuMs(there.pid);
  for (let turn = 0; turn <= TURNS; turn += 1) {
    // The first turn warms up.
    for (const path of paths) await path.turn(cpu, turn > 0, signal);
  }
  const [none] = paths;
  for (const path of paths) print(reportRow(path, none === path ? undefined : none));
}

function reportRow(path: Path, none: Path | undefined): string {
  const { usAPacket, p50Ms, p99Ms } = path.figures();
  const least = none?.figures();
  const cells = [
    path.name,
    `${usAPacket.toFixed(1)} µs`,
    least ? `${(usAPacket - least.usAPacket).toFixed(1)} µs` : '',
    `${p50Ms.toFixed(2)} / ${p99Ms.toFixed(2)} ms`,
    least ? `${(p50Ms - least.p50Ms).toFixed(2)} / ${(p99Ms - least.p99Ms).toFixed(2)} ms` : '',
  ];
  return `| ${cells.join(' | ')} |\n`;
}

/** Many speakers and one listener that hears them all, on the same media worker or over a pipe. */
class Path {
  readonly name: string;
  readonly #legs: PlainLeg[];
  readonly #pacing = new Pacing();
  readonly #latenciesMs: number[] = [];
  #cpuMs = 0;
  #isCounting = false;

  private constructor(name: string, legs: PlainLeg[]) {
    this.name = name;
    this.#legs = legs;
  }

  static async open(name: string, here: Worker, there: Worker, connect?: Connect): Promise<Path> {
    const near = await openRouter(here);
    const far = connect ? await openRouter(there) : near;
    const publish = connect ? await connect(near, far) : async () => {};
    const mouth = await PlainLeg.open(near, publish);
    const ear = await PlainLeg.open(far, async () => {});
    const path = new Path(name, [mouth, ear]);
    for (let slot = 0; slot < SPEAKERS; slot += 1) {
      const speaker = await openSpeaker(mouth);
      await ear.consume(speaker.id, far.rtpCapabilities, (...heard) => path.#hear(...heard));
      path.#pacing.add(slot, () => {
        const payload = Buffer.alloc(PACKET_BYTES);
        payload.writeDoubleBE(performance.now());
        speaker.send(payload);
      });
    }
    return path;
  }

  async turn(cpu: () => number, isCounted: boolean, signal: AbortSignal): Promise<void> {
    this.#isCounting = isCounted;
    const before = cpu();
    this.#pacing.start();
    await sleep(TURN_MS, undefined, { signal });
    this.#pacing.stop();
    await sleep(SETTLE_MS, undefined, { signal });
    if (isCounted) this.#cpuMs += cpu() - before;
  }

  figures(): { usAPacket: number; p50Ms: number; p99Ms: number } {
    const sorted = this.#latenciesMs.toSorted((a, b) => a - b);
    return {
      usAPacket: (this.#cpuMs * 1000) / sorted.length,
      p50Ms: quantile(sorted, 0.5),
      p99Ms: quantile(sorted, 0.99),
    };
  }

  close(): void {
    this.#pacing.stop();
    for (const leg of this.#legs) leg.close();
  }

  #hear(datagram: Buffer, levelExtensionId: number): void {
    const packet = parseRtpPacket(datagram, levelExtensionId);
    if (!packet || !this.#isCounting) return;
    this.#latenciesMs.push(performance.now() - packet.payload.readDoubleBE());
  }
}

async function connectWorkers(near: Router, far: Router) {
  const pipe = await Pipe.open(near, far);
  return async (producer: Producer) => {
    await pipe.send(producer);
  };
}

async function connectNodes(near: Router, far: Router) {
  const [out, into] = await Promise.all(
    [near, far].map((router) => NodePipe.open(router, ADDRESS, PORT_RANGE, async () => {})),
  );
  if (!out || !into) throw new Error('pipes not opened');
  await Promise.all([out.connect(into.address), into.connect(out.address)]);
  return async ({ id }: Producer) => {
    const { rtpParameters } = await out.send(id, () => {});
    await into.receive(id, rtpParameters);
  };
}
