import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from 'redis';
import type { TestCertificates } from './certificates.ts';
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
  /** All speak TLS, with the same certificate. */
  certificates?: TestCertificates;
  /** Address of this machine that all of them have, and are reached by. */
  address?: string;
  /** The first primary runs on another host, which has an address for this machine. */
  away?: { command: string[]; address: string };
};

/** A redis-server or a sentinel, as a process. */
export type RedisProcess = { host: string; port: number; child: ChildProcess };

/** A Redis that fails over: a primary, two replicas and three sentinels. */
export class FailoverRedis {
  readonly #folder: string;
  readonly #options: FailoverOptions;
  readonly #address: string;
  /** The first is the primary at the start. */
  readonly servers: RedisProcess[] = [];
  readonly sentinels: RedisProcess[] = [];

  private constructor(folder: string, options: FailoverOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#address = options.address ?? '127.0.0.1';
  }

  /** Resolves when each sentinel knows the others and both replicas, and the primary has both. */
  static async start(options: FailoverOptions = {}): Promise<FailoverRedis> {
    const folder = await mkdtemp(join(tmpdir(), 'partyline-failover-'));
    const redis = new FailoverRedis(folder, options);
    const [port = 0, ...replicas] = await freePorts(3);
    const primary = await redis.#startServer(port);
    for (const replica of replicas) await redis.#startServer(replica, primary);
    for (const sentinel of await freePorts(3)) await redis.#startSentinel(sentinel, primary);
    await eventually('sentinels and replicas know each other', () => redis.#isComplete());
    return redis;
  }

  /** `REDIS_URL`, and `SENTINEL_PASSWORD`. */
  get environment(): { REDIS_URL: string; SENTINEL_PASSWORD: string } {
    const { password, sentinelPassword = '', certificates } = this.#options;
    const hosts = this.sentinels.map(({ host, port }) => `${host}:${port}`).join(',');
    const credentials = password === undefined ? '' : `:${password}@`;
    const scheme = certificates ? 'rediss+sentinel' : 'redis+sentinel';
    return {
      REDIS_URL: `${scheme}://${credentials}${hosts}/${WATCHED_NAME}`,
      SENTINEL_PASSWORD: sentinelPassword,
    };
  }

  /** The server that the sentinels name as the primary. */
  async primary(): Promise<RedisProcess> {
    const [sentinel] = this.sentinels;
    const named = await this.ask(sentinel!, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', WATCHED_NAME);
    const [, port] = named as string[];
    return this.servers.find((server) => server.port === Number(port))!;
  }

  /** Runs a command on one server or sentinel. */
  async ask(of: RedisProcess, ...words: string[]): Promise<unknown> {
    const client = await this.#connect(of);
    try {
      return await client.sendCommand(words);
    } finally {
      client.destroy();
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.servers, ...this.sentinels].map(end));
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 10 });
  }

  async #startServer(port: number, primary?: RedisProcess): Promise<RedisProcess> {
    const { minReplicasToWrite = 0, password, certificates, away } = this.#options;
    const lines = [
      'save ""',
      'appendonly yes',
      'maxmemory-policy noeviction',
      'repl-diskless-sync-delay 0',
      `min-replicas-to-write ${minReplicasToWrite}`,
      ...(certificates ? ['tls-replication yes'] : []),
      ...(password === undefined ? [] : [`requirepass ${password}`, `masterauth ${password}`]),
      ...(primary ? [`replicaof ${primary.host} ${primary.port}`] : []),
    ];
    const isAway = away !== undefined && !primary;
    const config = await this.#writeConfig(port, lines);
    const command = [...(isAway ? away.command : []), 'redis-server', config];
    const host = isAway ? away.address : this.#address;
    return this.#start(this.servers, command, host, port);
  }

  async #startSentinel(port: number, primary: RedisProcess): Promise<void> {
    const { downAfterMs = 1000, password, sentinelPassword: own, certificates } = this.#options;
    const words = (name: string, value: string | number) =>
      `sentinel ${name} ${WATCHED_NAME} ${value}`;
    const config = await this.#writeConfig(port, [
      words('monitor', `${primary.host} ${primary.port} 2`),
      words('down-after-milliseconds', downAfterMs),
      words('failover-timeout', 10_000),
      words('parallel-syncs', 2),
      `sentinel announce-ip ${this.#address}`,
      ...(certificates ? ['tls-replication yes'] : []),
      ...(password === undefined ? [] : [words('auth-pass', password)]),
      ...(own === undefined ? [] : [`requirepass ${own}`, `sentinel sentinel-pass ${own}`]),
    ]);
    const command = ['redis-server', config, '--sentinel'];
    await this.#start(this.sentinels, command, this.#address, port);
  }

  async #start(
    list: RedisProcess[],
    [program = '', ...words]: string[],
    host: string,
    port: number,
  ): Promise<RedisProcess> {
    const started = { host, port, child: spawn(program, words, { stdio: 'ignore' }) };
    list.push(started);
    await eventually(`the server at port ${port} answers`, () => this.#isAnswering(started));
    return started;
  }

  async #writeConfig(port: number, lines: string[]): Promise<string> {
    const { certificates } = this.#options;
    const dir = join(this.#folder, String(port));
    await mkdir(dir);
    const file = join(this.#folder, `${port}.conf`);
    const listening = certificates
      ? [
          'port 0',
          `tls-port ${port}`,
          `tls-cert-file ${certificates.certFile}`,
          `tls-key-file ${certificates.keyFile}`,
          `tls-ca-cert-file ${certificates.caFile}`,
          'tls-auth-clients no',
        ]
      : [`port ${port}`];
    const common = [...listening, 'bind 0.0.0.0', 'protected-mode no', `dir ${dir}`];
    await writeFile(file, [...common, ...lines, ''].join('\n'));
    return file;
  }

  async #connect(of: RedisProcess) {
    const { password, sentinelPassword, certificates } = this.#options;
    const word = this.sentinels.includes(of) ? sentinelPassword : password;
    const socket = { host: of.host, port: of.port, reconnectStrategy: false } as const;
    const client = createClient({
      RESP: 2,
      ...(word !== undefined && { password: word }),
      socket: certificates
        ? { ...socket, tls: true, ca: readFileSync(certificates.caFile) }
        : socket,
    });
    // The same fault rejects connect(), or what is asked.
    client.on('error', () => {});
    await client.connect();
    return client;
  }

  async #isAnswering(of: RedisProcess): Promise<boolean> {
    try {
      (await this.#connect(of)).destroy();
      return true;
    } catch {
      // Not yet.
      return false;
    }
  }

  async #isComplete(): Promise<boolean> {
    for (const sentinel of this.sentinels) {
      const fields = (await this.ask(sentinel, 'SENTINEL', 'MASTER', WATCHED_NAME)) as string[];
      const valueOf = (name: string) => fields[fields.indexOf(name) + 1];
      if (valueOf('num-slaves') !== '2' || valueOf('num-other-sentinels') !== '2') return false;
    }
    const info = await this.ask(this.servers[0]!, 'INFO', 'replication');
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
