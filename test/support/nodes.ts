import { GatewayProcess } from './process.ts';
import type { TestRedis } from './redis.ts';

/** A gateway in a process of its own; the key is that of the first node of its cluster. */
export type Node = { process: GatewayProcess; url: string; apiKey: string };

/** Gateways that are processes of their own, as they are in the field, and share a Redis. */
export class Nodes {
  readonly #redis: TestRedis;
  readonly #environment: Record<string, string>;
  readonly #started: GatewayProcess[] = [];
  #apiKey: string | undefined;

  constructor(redis: TestRedis, environment: Record<string, string> = {}) {
    this.#redis = redis;
    this.#environment = environment;
  }

  async start(environment: Record<string, string> = {}): Promise<Node> {
    const process = await GatewayProcess.start({
      REDIS_URL: this.#redis.url,
      USAGE_WORKERS: '0',
      LOG_LEVEL: 'warn',
      ...this.#environment,
      ...environment,
    });
    this.#started.push(process);
    const { url, api_key: ownKey } = await process.ready();
    this.#apiKey ??= ownKey;
    return { process, url, apiKey: this.#apiKey };
  }

  async close(): Promise<void> {
    await Promise.all(this.#started.map((process) => process.dispose()));
  }
}
