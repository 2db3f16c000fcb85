import { setTimeout as sleep } from 'node:timers/promises';
import { FloorProcess } from './floor-process.ts';
import { GatewayProcess } from './gateway-process.ts';
import { JanusLoad } from './janus-load.ts';
import { JanusProcess } from './janus-process.ts';
import { Load, type Traffic } from './load.ts';
import type { ProbeReport } from './probe-report.ts';
import type { Scenario } from './scenario.ts';

/** Until the mix has found its pace. */
const WARM_UP_MS = 2500;
/** Until everything has been compiled that is going to be, as it is in what runs for days. */
const COMPILE_MS = 8000;
/** The same once it has been warm. */
const RESUME_MS = 500;
const SETTLE_MS = 500;
/** Time for packets that are still on their way when all speakers have fallen silent. */
const DRAIN_MS = 300;
/** The gateway and the floor take turns, so that a spell of noise on the machine does not fall on one of them alone. */
const TURNS = 4;

export type Bounds = {
  /** Length of all windows of one subject together. */
  seconds: number;
  packets: Buffer[];
  signal: AbortSignal;
};

/** CPU time in a window, and what went through in it. */
export type Figures = { traffic: Traffic; mainMs: number; mediaWorkerMs: number };

/** The server under load. */
type Subject = {
  /** Used so far by the process itself, and by the media workers that it has. */
  cpuMs(): { main: number; mediaWorkers: number };
};

/** The clients of it. */
type Talk = Pick<Load, 'speak' | 'beginWindow' | 'endWindow' | 'hush' | 'traffic' | 'close'>;

/**
 * Measures the CPU and memory that the gateway takes for a scenario and, if `withFloor`, the CPU that the floor
 * takes.
 */
export async function measureCost(
  scenario: Scenario,
  bounds: Bounds,
  { withFloor, profileDir }: { withFloor: boolean; profileDir: string | undefined },
): Promise<{ gateway: Figures; memoryKbAPeer: number; floor: Figures | undefined }> {
  await using gateway = await GatewayProcess.start(scenario, { profileDir });
  await using floor = withFloor ? await FloorProcess.start(scenario) : undefined;
  await sleep(SETTLE_MS, undefined, { signal: bounds.signal });
  const idleKb = gateway.residentKb();
  using gatewayTrial = await openTrial(gateway, scenario, bounds);
  using floorTrial = floor && (await openTrial(floor, scenario, bounds));
  if (!isIdle(scenario)) await gatewayTrial.compile();
  if (!isIdle(scenario)) await floorTrial?.compile();
  for (let turn = 0; turn < TURNS; turn += 1) {
    await gatewayTrial.turn(bounds.seconds / TURNS);
    await floorTrial?.turn(bounds.seconds / TURNS);
  }
  const grownKb = gateway.residentKb() - idleKb;
  return {
    gateway: gatewayTrial.figures(),
    memoryKbAPeer: grownKb / (scenario.rooms * scenario.peers),
    floor: floorTrial?.figures(),
  };
}

/** How long packets are inside the gateway, and how busy its event loop is. */
export async function measureInside(
  scenario: Scenario,
  bounds: Bounds,
): Promise<{ traffic: Traffic; probe: ProbeReport }> {
  await using gateway = await GatewayProcess.start(scenario, { probe: true });
  using trial = await openTrial(gateway, scenario, bounds);
  if (!isIdle(scenario)) await trial.compile();
  await trial.turn(bounds.seconds, () => gateway.resetProbe());
  return { traffic: trial.figures().traffic, probe: await gateway.askProbe() };
}

/** Measures the CPU that Janus takes for a scenario; undefined where it is not installed. */
export async function measureJanus(
  scenario: Scenario,
  { packets, seconds, signal }: Bounds,
): Promise<Figures | undefined> {
  await using janus = await JanusProcess.start();
  if (!janus) return undefined;
  using trial = new Trial(janus, await JanusLoad.connect(scenario, packets, janus), signal);
  await trial.turn(seconds);
  return trial.figures();
}

const isIdle = ({ speakers }: Scenario) => speakers === 0;

/** Has the clients of a scenario enter the rooms of a server. */
export async function openTrial(
  subject: GatewayProcess | FloorProcess,
  scenario: Scenario,
  { packets, signal }: Pick<Bounds, 'packets' | 'signal'>,
): Promise<Trial> {
  const address = (room: number, peer: number) => subject.address(room, peer);
  return new Trial(subject, await Load.connect(scenario, packets, address), signal);
}

/** One subject under the load of a scenario, which it bears in turns. */
class Trial implements Disposable {
  readonly #subject: Subject;
  readonly #load: Talk;
  readonly #signal: AbortSignal;
  #isWarm = false;
  #mainMs = 0;
  #mediaWorkerMs = 0;

  constructor(subject: Subject, load: Talk, signal: AbortSignal) {
    this.#subject = subject;
    this.#load = load;
    this.#signal = signal;
  }

  /** Lets the clients speak until what serves them is as fast as it gets. */
  async compile(): Promise<void> {
    this.#load.speak();
    await this.#wait(COMPILE_MS);
    this.#load.hush();
    await this.#wait(DRAIN_MS);
  }

  /**
   * Lets the clients speak, and counts for `seconds`.
   * @returns CPU time of the server and its media workers in these, ms
   */
  async turn(seconds: number, onBegin = () => {}): Promise<number> {
    this.#load.speak();
    await this.#wait(this.#isWarm ? RESUME_MS : WARM_UP_MS);
    this.#isWarm = true;
    onBegin();
    this.#load.beginWindow();
    const before = this.#subject.cpuMs();
    await this.#wait(seconds * 1000);
    const after = this.#subject.cpuMs();
    this.#load.endWindow();
    const mainMs = after.main - before.main;
    const mediaWorkerMs = after.mediaWorkers - before.mediaWorkers;
    this.#mainMs += mainMs;
    this.#mediaWorkerMs += mediaWorkerMs;
    this.#load.hush();
    await this.#wait(DRAIN_MS);
    return mainMs + mediaWorkerMs;
  }

  figures(): Figures {
    const traffic = this.#load.traffic();
    return { traffic, mainMs: this.#mainMs, mediaWorkerMs: this.#mediaWorkerMs };
  }

  [Symbol.dispose](): void {
    this.#load.close();
  }

  #wait(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.#signal });
  }
}
