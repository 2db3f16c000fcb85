import { setTimeout as sleep } from 'node:timers/promises';
import { FloorProcess } from './floor-process.ts';
import { GatewayProcess } from './gateway-process.ts';
import { JanusLoad } from './janus-load.ts';
import { JanusProcess } from './janus-process.ts';
import { Load, type Traffic } from './load.ts';
import type { ProbeReport } from './probe-report.ts';
import type { Scenario } from './scenario.ts';

/** Time until the mix has found its pace, ms. */
const WARM_UP_MS = 2500;
/** Time until all code is compiled, as it is in a process that has run for days, ms. */
const COMPILE_MS = 8000;
/** Warm-up time of a subject that has been warm, ms. */
const RESUME_MS = 500;
const SETTLE_MS = 500;
/** Time for packets that are still on their way when all speakers have fallen silent, ms. */
const DRAIN_MS = 300;
/**
 * Number of turns: the gateway and the floor alternate, so that noise on the machine does not fall on one of
 * them alone.
 */
const TURNS = 4;

export type Bounds = {
  /** Length of all windows of one subject together, s. */
  seconds: number;
  packets: Buffer[];
  signal: AbortSignal;
};

/** CPU time and traffic of a window. */
export type Figures = { traffic: Traffic; mainMs: number; mediaWorkerMs: number };

/** The server under load. */
type Subject = {
  /** Returns the CPU time that the process itself, and its media workers, have used so far. */
  cpuMs(): { main: number; mediaWorkers: number };
};

/** Clients of the server. */
type Talk = Pick<Load, 'speak' | 'beginWindow' | 'endWindow' | 'hush' | 'traffic' | 'close'>;

/** Measures the CPU and memory of the gateway in a scenario and, if `withFloor`, the CPU of the floor. */
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

/** Measures the time that packets spend inside the gateway, and the use of its event loop. */
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

/** Measures the CPU of Janus in a scenario; undefined if it is not installed. */
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

/** Takes the clients of a scenario into the rooms of a server, from the number `firstRoom` on. */
export async function openTrial(
  subject: GatewayProcess | FloorProcess,
  scenario: Scenario,
  { packets, signal }: Pick<Bounds, 'packets' | 'signal'>,
  firstRoom = 0,
): Promise<Trial> {
  const address = (room: number, peer: number) => subject.address(firstRoom + room, peer);
  return new Trial(subject, await Load.connect(scenario, packets, address), signal);
}

/** One subject under the load of a scenario, which it gets in turns. */
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

  /** Lets the clients speak until the code of the server is compiled. */
  async compile(forMs = COMPILE_MS): Promise<void> {
    this.#load.speak();
    await this.#wait(forMs);
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
