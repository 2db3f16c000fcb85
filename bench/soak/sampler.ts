import { residentKb } from '../process-stats.ts';
import {
  countDescriptors,
  countMediaWorkerDescriptors,
  mediaWorkersOf,
  type RunningNode,
  type SoakNodes,
} from './nodes.ts';
import { readRedis, type RedisContents } from './redis-keys.ts';

const SAMPLE_EVERY_MS = 10_000;
const ANSWER_TIMEOUT_MS = 4000;

export type NodeSample = {
  atMs: number;
  index: number;
  run: string;
  residentMb: number;
  heapMb: number;
  mediaWorkersMb: number;
  descriptors: number;
  mediaWorkerDescriptors: number;
  sessions: number;
  rooms: number;
};

/** Samples the nodes and Redis every 10 s. */
export class Sampler {
  readonly #nodes: SoakNodes;
  readonly #redisUrl: string;
  readonly #startMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  readonly nodeSamples: NodeSample[] = [];
  readonly redisSamples: RedisContents[] = [];
  /** Number of samples that failed because the node or Redis did not answer. */
  missed = 0;

  constructor(nodes: SoakNodes, redisUrl: string) {
    this.#nodes = nodes;
    this.#redisUrl = redisUrl;
    this.#timer = setInterval(() => void this.#sample(), SAMPLE_EVERY_MS);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #sample(): Promise<void> {
    const atMs = performance.now() - this.#startMs;
    const nodes = this.#nodes.up.map((node) => sampleNode(node, atMs));
    for (const sample of await Promise.allSettled(nodes)) {
      if (sample.status === 'fulfilled') this.nodeSamples.push(sample.value);
      else this.missed += 1;
    }
    try {
      this.redisSamples.push(await readRedis(this.#redisUrl));
    } catch {
      this.missed += 1;
    }
  }
}

async function sampleNode(
  { index, run, pid, url }: RunningNode,
  atMs: number,
): Promise<NodeSample> {
  const metrics = await readMetrics(url);
  return {
    atMs,
    index,
    run,
    residentMb: residentKb(pid) / 1024,
    heapMb: (metrics['partyline_nodejs_heap_size_used_bytes'] ?? 0) / 1e6,
    mediaWorkersMb: mediaWorkersOf(pid).reduce((sum, of) => sum + residentKb(of), 0) / 1024,
    descriptors: countDescriptors(pid),
    mediaWorkerDescriptors: countMediaWorkerDescriptors(pid),
    sessions: metrics['partyline_sessions'] ?? NaN,
    rooms: metrics['partyline_rooms'] ?? NaN,
  };
}

/** Returns the figures without labels. @throws {Error} if the node does not answer in time */
export async function readMetrics(url: string): Promise<Record<string, number>> {
  const text = await (await get(new URL('/metrics', url))).text();
  const figures = text.matchAll(/^(\w+) (\S+)$/gm);
  return Object.fromEntries([...figures].map(([, name, value]) => [name!, Number(value)]));
}

/** Sends a request, and leaves no connection open. @throws {Error} if there is no answer in time */
export function get(url: URL, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, {
    headers: { ...headers, connection: 'close' },
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
  });
}
