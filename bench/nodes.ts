import { OPERATOR_KEY } from './ask-operator.ts';
import { ALL_CORES } from './child.ts';
import { GatewayProcess } from './gateway-process.ts';
import { openOwnRedis } from './own-redis.ts';
import type { Scenario } from './scenario.ts';

/** Settings of a gateway that refuses no client, as the measurement requires. */
const ENVIRONMENT = {
  OVERLOAD_LOOP_DELAY_MS: '0',
  OVERLOAD_CPU_PERCENT: '0',
  // With threads a single process would use more cores with more rooms.
  MIX_THREADS: '0',
  OPERATOR_KEY,
};

/** Nodes that share a Redis, on all cores, each of one process or of several. */
export class Nodes implements AsyncDisposable {
  readonly #opened: AsyncDisposableStack;
  readonly #nodes: GatewayProcess[];

  private constructor(nodes: GatewayProcess[], opened: AsyncDisposableStack) {
    this.#nodes = nodes;
    this.#opened = opened;
  }

  static async start(scenario: Scenario, nodes: number, processes = 1): Promise<Nodes> {
    await using opened = new AsyncDisposableStack();
    const REDIS_URL = await openOwnRedis(opened);
    const environment = {
      ...ENVIRONMENT,
      REDIS_URL,
      PROCESSES: String(processes),
    };
    const started: GatewayProcess[] = [];
    while (started.length < nodes) {
      const options = { environment, cores: ALL_CORES };
      started.push(opened.use(await GatewayProcess.start(scenario, options)));
    }
    return new Nodes(started, opened.move());
  }

  /** Returns the address of a node; the key is valid on all nodes. */
  url(node: number): string {
    return this.#nodes[node]!.url;
  }

  get apiKey(): string {
    return this.#nodes[0]!.apiKey;
  }

  /** Returns the WebSocket URL at which a peer connects and joins its room; all peers of a room get the same node. */
  address(room: number, peer: number): URL {
    const address = this.#nodes[0]!.address(room, peer);
    address.port = new URL(this.url(room % this.#nodes.length)).port;
    return address;
  }

  /** Returns the CPU time of all nodes. */
  cpuMs(): number {
    return this.#nodes
      .map((node) => node.cpuMs())
      .reduce((sum, { main, mediaWorkers }) => sum + main + mediaWorkers, 0);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#opened.disposeAsync();
  }
}
