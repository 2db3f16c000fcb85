import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from 'redis';
import { freePorts } from './free-ports.ts';
import { eventually } from './gateway.ts';

/** Name by which the sentinels know the primary. */
const WATCHED_NAME = 'partyline';

export type FailoverOptions = {
  /** Silence of the primary after which sentinels begin a failover, ms. */
  downAfterMs?: number;
  /** Number of replicas that must have answered in the last seconds for the primary to take writes. */
  minReplicasToWrite?: number;
  /** Password of the Redis servers, and of the sentinels. */
  password?: string;
  sentinelPassword?: string;
};

/** A redis-server or a sentinel, as a process. */
export type RedisProcess = { port: number; child: ChildProcess };

/** A Redis that fails over: a primary, two replicas and three sentinels. */
export class FailoverRedis {
  readonly #folder: string;
  readonly #options: FailoverOptions;
  /** The first is the primary at the start. */
  readonly servers: RedisProcess[] = [];
  readonly sentinels: RedisProcess[] = [];

  private constructor(folder: string, options: FailoverOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  /** Resolves when each sentinel knows the others and both replicas, and the primary takes writes. */
  static async start(options: FailoverOptions = {}): Promise<FailoverRedis> {
    const folder = await mkdtemp(join(tmpdir(), 'partyline-failover-'));
    const redis = new FailoverRedis(folder, options);
    const [primary = 0, ...replicas] = await freePorts(3);
    redis.servers.push(await redis.#startServer(primary));
    for (const port of replicas) redis.servers.push(await redis.#startServer(port, primary));
    for (const port of await freePorts(3)) {
      redis.sentinels.push(await redis.#startSentinel(port, primary));
    }
    await eventually('sentinels and replicas know each other', () => redis.#isComplete(), 20_000);
    return redis;
  }

  /** `REDIS_URL`, and `SENTINEL_PASSWORD`. */
  get environment(): { REDIS_URL: string; SENTINEL_PASSWORD: string } {
    const { password, sentinelPassword = '' } = this.#options;
    const hosts = this.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const credentials = password === undefined ? '' : `:${password}@`;
    return {
      REDIS_URL: `redis+sentinel://${credentials}${hosts}/${WATCHED_NAME}`,
      SENTINEL_PASSWORD: sentinelPassword,
    };
  }

  /** The server that the sentinels name as the primary. */
  async primary(): Promise<RedisProcess> {
    const port = await this.ask(this.sentinels[0]!, async (send) => {
      const reply = await send(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', WATCHED_NAME]);
      return Number((reply as string[])[1]);
    });
    return this.servers.find((server) => server.port === port)!;
  }

  /** Runs commands on one server or sentinel. */
  async ask<T>(
    { port }: RedisProcess,
    work: (send: (words: string[]) => Promise<unknown>) => Promise<T>,
  ): Promise<T> {
    const isSentinel = this.sentinels.some((sentinel) => sentinel.port === port);
    const { password, sentinelPassword } = this.#options;
    const word = isSentinel ? sentinelPassword : password;
    const client = createClient({
      RESP: 2,
      ...(word !== undefined && { password: word }),
      socket: { host: '127.0.0.1', port, reconnectStrategy: false },
    });
    client.on('error', () => {});
    await client.connect();
    try {
      return await work((words) => client.sendCommand(words));
    } finally {
      client.destroy();
    }
  }

  /** Starts a server again, as its service manager would: with its file, and as what it was last. */
  async restart(server: RedisProcess): Promise<void> {
    await end(server);
    server.child = this.#spawn(this.#configOf(server.port));
    await this.#untilAnswering(server);
  }

  async close(): Promise<void> {
    await Promise.all([...this.servers, ...this.sentinels].map(end));
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 10 });
  }

  async #startServer(port: number, primary?: number): Promise<RedisProcess> {
    const { minReplicasToWrite = 0, password } = this.#options;
    const dir = join(this.#folder, String(port));
    await mkdir(dir);
    const lines = [
      'save ""',
      'appendonly yes',
      'maxmemory-policy noeviction',
      'repl-diskless-sync-delay 0',
      `min-replicas-to-write ${minReplicasToWrite}`,
      ...(password === undefined ? [] : [`requirepass ${password}`, `masterauth ${password}`]),
      ...(primary === undefined ? [] : [`replicaof 127.0.0.1 ${primary}`]),
    ];
    return this.#start(port, lines);
  }

  async #startSentinel(port: number, primary: number): Promise<RedisProcess> {
    const { downAfterMs = 1000, password, sentinelPassword: own } = this.#options;
    const words = (name: string, value: string | number) =>
      `sentinel ${name} ${WATCHED_NAME} ${value}`;
    return this.#start(port, [
      words('monitor', `127.0.0.1 ${primary} 2`),
      words('down-after-milliseconds', downAfterMs),
      words('failover-timeout', 10_000),
      words('parallel-syncs', 2),
      ...(password === undefined ? [] : [words('auth-pass', password)]),
      ...(own === undefined ? [] : [`requirepass ${own}`, `sentinel sentinel-pass ${own}`]),
    ]);
  }

  async #start(port: number, lines: string[]): Promise<RedisProcess> {
    const dir = join(this.#folder, String(port));
    await mkdir(dir, { recursive: true });
    const common = [`port ${port}`, 'bind 127.0.0.1', 'protected-mode no', `dir ${dir}`];
    await writeFile(this.#configOf(port), [...common, ...lines, ''].join('\n'));
    const isSentinel = lines.some((line) => line.startsWith('sentinel'));
    const started = { port, child: this.#spawn(this.#configOf(port), isSentinel) };
    await this.#untilAnswering(started);
    return started;
  }

  readonly #configOf = (port: number) => join(this.#folder, `${port}.conf`);

  #spawn(config: string, isSentinel = false): ChildProcess {
    return spawn('redis-server', [config, ...(isSentinel ? ['--sentinel'] : [])], {
      stdio: 'ignore',
    });
  }

  async #untilAnswering(server: RedisProcess): Promise<void> {
    await eventually(`the server at port ${server.port} answers`, () => isAnswering(server.port));
  }

  async #isComplete(): Promise<boolean> {
    for (const sentinel of this.sentinels) {
      const reply = await this.ask(sentinel, (send) => send(['SENTINEL', 'MASTER', WATCHED_NAME]));
      const fields = reply as string[];
      const valueOf = (name: string) => fields[fields.indexOf(name) + 1];
      if (valueOf('num-slaves') !== '2' || valueOf('num-other-sentinels') !== '2') return false;
    }
    const [primary] = this.servers;
    const info = await this.ask(primary!, (send) => send(['INFO', 'replication']));
    return /^slave1:.*state=online/m.test(String(info));
  }
}

/** Ends a process, also one that is stopped. */
async function end({ child }: RedisProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

async function isAnswering(port: number): Promise<boolean> {
  const client = createClient({ socket: { host: '127.0.0.1', port, reconnectStrategy: false } });
  client.on('error', () => {});
  try {
    await client.connect();
    client.destroy();
    return true;
  } catch (fault) {
    // One with a password refuses the greeting.
    return /NOAUTH/.test(String(fault));
  }
}
