import { readdirSync, readFileSync } from 'node:fs';
import { eventually, freeRtcPort } from '../../test/support/gateway.ts';
import { GatewayProcess } from '../../test/support/process.ts';
import { descendants, isNamed } from '../process-stats.ts';
import { INSPECT_SIGNAL, INSPECTED, type Inspection } from './inspection.ts';

const INSPECT = new URL('./inspect.ts', import.meta.url).href;
const MEDIA_WORKERS = 2;
const INSPECT_TIMEOUT_MS = 10_000;
/** Options of Node that the inspection needs. */
const NODE_OPTIONS = `--expose-gc --import=${INSPECT}`;

/** One gateway process from its start to its end. */
export type RunningNode = {
  index: number;
  /** Name of this start of the node; each start has another. */
  run: string;
  process: GatewayProcess;
  pid: number;
  url: string;
  /** Resources right after the start. */
  atStart: { inspection: Inspection; descriptors: number; mediaWorkerDescriptors: number };
};

/** Gateways that share a Redis, can be ended in any way, and are started again. */
export class SoakNodes {
  readonly #environment: Record<string, string>;
  readonly #up = new Map<number, RunningNode>();
  readonly #rtcPorts = new Map<number, number>();
  readonly #isEnding = new Set<string>();
  readonly #log: (line: string) => void;
  #starts = 0;
  /** Nodes that ended although no fault ended them. */
  readonly crashes: string[] = [];
  /** Logs of the nodes that were ended. */
  readonly outputs: string[] = [];

  private constructor(environment: Record<string, string>, log: (line: string) => void) {
    this.#environment = environment;
    this.#log = log;
  }

  static async start(
    count: number,
    environment: Record<string, string>,
    log: (line: string) => void,
  ): Promise<SoakNodes> {
    const nodes = new SoakNodes(environment, log);
    for (let index = 0; index < count; index += 1) await nodes.#start(index);
    return nodes;
  }

  get up(): RunningNode[] {
    return [...this.#up.values()];
  }

  /** Returns the node, or another one while it is down. @throws {Error} if none is up */
  pick(index: number): RunningNode {
    const node = this.#up.get(index) ?? this.up[0];
    if (node) return node;
    throw new Error('no node is up');
  }

  /**
   * Ends a node and starts another in its place.
   * @param onEnded called when its process has gone
   */
  async replace(
    index: number,
    signal: 'SIGKILL' | 'SIGTERM',
    onEnded: (node: RunningNode) => void,
  ): Promise<void> {
    const node = this.pick(index);
    await this.#end(node, signal);
    onEnded(node);
    await this.#start(node.index, node.process.dataDir);
  }

  async close(): Promise<void> {
    for (const node of this.up) {
      await this.#end(node, 'SIGTERM');
      await node.process.dispose();
    }
  }

  async #end(node: RunningNode, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    this.#isEnding.add(node.run);
    // A load balancer keeps sending clients to a draining node for a while.
    if (signal === 'SIGKILL') this.#up.delete(node.index);
    node.process.child.kill(signal);
    const code = await node.process.exited;
    this.#up.delete(node.index);
    this.outputs.push(node.process.output);
    if (signal === 'SIGTERM' && code !== 0) this.crashes.push(`${node.run}: exit code ${code}`);
  }

  async #start(index: number, dataDir?: string): Promise<void> {
    const rtcPort = this.#rtcPorts.get(index) ?? freeRtcPort();
    this.#rtcPorts.set(index, rtcPort);
    const gateway = await GatewayProcess.start(
      {
        MEDIA_WORKERS: String(MEDIA_WORKERS),
        RTC_PORT: String(rtcPort),
        NODE_OPTIONS,
        ...this.#environment,
      },
      dataDir,
    );
    const { url } = await gateway.ready();
    this.#starts += 1;
    const run = `node ${index}, start ${this.#starts}`;
    const pid = gateway.child.pid!;
    const atStart = {
      inspection: await inspect(gateway),
      descriptors: countDescriptors(pid),
      mediaWorkerDescriptors: countMediaWorkerDescriptors(pid),
    };
    const node = { index, run, process: gateway, pid, url, atStart };
    void gateway.exited.then((code) => {
      if (this.#isEnding.has(run)) return;
      const crash = `${run}: ended by itself, code ${code}: ${lastWords(gateway)}`;
      this.crashes.push(crash);
      this.#log(crash);
      this.outputs.push(gateway.output);
      this.#up.delete(index);
      this.#start(index, gateway.dataDir).catch((fault: unknown) => this.#log(String(fault)));
    });
    this.#up.set(index, node);
  }
}

/** Asks a gateway for its resources. @throws {Error} if it does not answer */
export async function inspect(gateway: GatewayProcess): Promise<Inspection> {
  const from = gateway.output.length;
  const answer = () =>
    gateway.output
      .slice(from)
      .split('\n')
      .slice(0, -1)
      .find((line) => line.startsWith(INSPECTED));
  gateway.child.kill(INSPECT_SIGNAL);
  await eventually('it is inspected', () => answer() !== undefined, INSPECT_TIMEOUT_MS);
  return JSON.parse(answer()!.slice(INSPECTED.length)) as Inspection;
}

/** Returns the last output of a gateway that is not a line of its log: the reason for which Node ended it. */
const lastWords = ({ output }: GatewayProcess) =>
  output
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('{') && !line.startsWith(INSPECTED))
    .slice(-12)
    .join(' ↵ ');

export const mediaWorkersOf = (pid: number): number[] =>
  descendants(pid)
    .filter(({ name }) => isNamed(name, 'mediasoup-worker'))
    .map((worker) => worker.pid);

export const countDescriptors = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;

export const countMediaWorkerDescriptors = (pid: number) =>
  mediaWorkersOf(pid).reduce((sum, worker) => sum + countDescriptors(worker), 0);

/** Returns the usage workers that a gateway has started. */
export async function usageWorkersOf(gateway: GatewayProcess): Promise<number[]> {
  const pids = await gateway.descendantPids();
  return pids.filter((pid) => commandOf(pid).includes('usage.ts'));
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    // The process has ended since it was listed.
    return '';
  }
}
