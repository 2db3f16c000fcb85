import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { type Client, newRedisClient } from '../../src/store/client.ts';
import { freePort } from './free-ports.ts';
import { eventually } from './gateway.ts';

/** An operator's Redis: on a TCP port, and able to be stopped, cut and started again. */
export class TestRedis {
  readonly #port: number;
  readonly #dataDir: string | undefined;
  #child: ChildProcess;

  private constructor(port: number, dataDir: string | undefined, options: string[] = []) {
    this.#port = port;
    this.#dataDir = dataDir;
    this.#child = spawnRedis(port, dataDir, options);
  }

  /** @param dataDir where it keeps its append-only file; without, it forgets all when it ends */
  static async start(dataDir?: string): Promise<TestRedis> {
    const redis = new TestRedis(await freePort(), dataDir);
    await redis.#untilAnswering();
    return redis;
  }

  /** One that listens on the socket of a data folder, as the gateway's own does, and knows nothing of its lock. */
  static async startAt(dataDir: string): Promise<TestRedis> {
    const socket = ['--unixsocket', join(dataDir, 'redis.sock'), '--dir', dataDir];
    const redis = new TestRedis(await freePort(), undefined, socket);
    await redis.#untilAnswering();
    return redis;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  /** For clients on other hosts, to whom this machine has another address. */
  urlAt(address: string): string {
    return `redis://${address}:${this.#port}`;
  }

  /** Stops the server, so that it hangs: its socket is open, and nobody answers. */
  hang(): void {
    this.#child.kill('SIGSTOP');
  }

  goOn(): void {
    this.#child.kill('SIGCONT');
  }

  /** Refuses writes from now on with an error, as a primary without its replicas does, or as a replica. */
  async refuseWrites(error: 'NOREPLICAS' | 'READONLY' = 'NOREPLICAS'): Promise<void> {
    await this.#ask(async (client) => {
      if (error === 'READONLY') await client.sendCommand(['REPLICAOF', '127.0.0.1', '1']);
      else await client.configSet('min-replicas-to-write', '1');
    });
  }

  /** Accepts writes again. */
  async acceptWrites(): Promise<void> {
    await this.#ask(async (client) => {
      await client.sendCommand(['REPLICAOF', 'NO', 'ONE']);
      await client.configSet('min-replicas-to-write', '0');
    });
  }

  /** Counts runs of these commands since its start, those that it refused included. */
  async countCommands(...names: string[]): Promise<number> {
    const stats = await this.#ask((client) => client.info('commandstats'));
    const lines = stats.matchAll(/^cmdstat_(\S+):calls=(\d+),.*rejected_calls=(\d+)/gm);
    return Array.from(lines)
      .filter(([, name]) => names.includes(name!))
      .reduce((sum, [, , calls, rejected]) => sum + Number(calls) + Number(rejected), 0);
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }

  /** Starts it again; without a folder, with nothing of what it knew. */
  async restart(): Promise<void> {
    await this.kill();
    this.#child = spawnRedis(this.#port, this.#dataDir);
    await this.#untilAnswering();
  }

  async #ask<T>(commands: (client: Client) => Promise<T>): Promise<T> {
    const client = newRedisClient({ url: this.url }, DEFAULT_TIMINGS.redis);
    await client.connect();
    try {
      return await commands(client);
    } finally {
      client.destroy();
    }
  }

  async #untilAnswering(): Promise<void> {
    await eventually('redis answers', async () => {
      const { exitCode } = this.#child;
      if (exitCode !== null) throw new Error(`redis on port ${this.#port} exited with ${exitCode}`);
      const onceOnly = { mayRetry: () => false };
      const client = newRedisClient({ url: this.url }, DEFAULT_TIMINGS.redis, onceOnly);
      // The same fault rejects connect().
      client.on('error', () => {});
      try {
        await client.connect();
        const server = await client.info('server');
        await client.close();
        // Another one may listen there, when this one has found the port taken.
        return server.includes(`process_id:${this.#child.pid}\r\n`);
      } catch {
        // Not yet.
        return false;
      }
    });
  }
}

const spawnRedis = (port: number, dataDir: string | undefined, more: string[] = []) => {
  const files = dataDir === undefined ? ['no'] : ['yes', '--dir', dataDir];
  const open = ['--protected-mode', 'no'];
  const options = [
    '--port',
    String(port),
    ...open,
    '--save',
    '',
    '--appendonly',
    ...files,
    ...more,
  ];
  return spawn('redis-server', options, { stdio: 'ignore' });
};
