import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, isIP, type Server, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import type { FastifyBaseLogger } from 'fastify';
import { ErrorReply } from 'redis';
import type { WatchedRedis } from '../../config/sentinel-url.ts';
import type { Timings } from '../../config/timings.ts';
import { choosePrimary, isSameServer } from './choose-primary.ts';
import { Sentinel, type SentinelAnswer } from './sentinel.ts';

const RETRY_MS = 200;
/** Reconnect strategy, as node-redis has it for its own connections. */
const KEEP_ALIVE_AFTER_MS = 30_000;

/** Settings of a tunnel. */
export type TunnelOptions = {
  watched: WatchedRedis;
  /** Password of the sentinels; empty if they have none. */
  sentinelPassword: string;
  timings: Timings['redis'];
  /** Aborts the wait. */
  abort?: AbortSignal | undefined;
};

/**
 * A socket of this process that leads to the present primary of a watched Redis. Redis clients,
 * including those of libraries, connect to it as to a server with a fixed address. When the sentinels name another primary, the
 * connections to the former one are closed, and clients connect again as after any fault; data that they had
 * sent is not sent again.
 *
 * The socket is in the kernel's abstract namespace (unix(7)): no file is left behind.
 */
export class PrimaryTunnel {
  readonly socketPath = `\0partyline-${process.pid}-${randomUUID()}`;
  readonly #watched: WatchedRedis;
  readonly #timings: Timings['redis'];
  readonly #log: FastifyBaseLogger;
  readonly #sentinels: Sentinel[];
  readonly #server: Server;
  readonly #carried = new Set<Socket>();
  /** Sentinels that did not answer when they were last asked. */
  #silent = new Map<Sentinel, Error>();
  #primary: SentinelAnswer | undefined;
  #fault: Error | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  #isClosed = false;

  private constructor(
    { watched, sentinelPassword: password, timings }: TunnelOptions,
    log: FastifyBaseLogger,
  ) {
    const { name, isTls } = watched;
    const asking = { name, isTls, password, withinMs: timings.sentinelWithinMs };
    this.#watched = watched;
    this.#timings = timings;
    this.#log = log;
    this.#sentinels = watched.sentinels.map((address) => new Sentinel(address, asking));
    this.#server = createServer((socket) => this.#carry(socket));
  }

  /**
   * Finds the primary. Waits for sentinels that may have been started at the same moment.
   * @throws {Error} if no sentinel knows it, with the error of each
   */
  static async open(options: TunnelOptions, log: FastifyBaseLogger): Promise<PrimaryTunnel> {
    const tunnel = new PrimaryTunnel(options, log);
    try {
      await tunnel.#untilFound(options.abort);
      tunnel.#server.listen(tunnel.socketPath);
      await once(tunnel.#server, 'listening');
    } catch (fault) {
      tunnel.close();
      throw fault;
    }
    const { sentinelEveryMs } = options.timings;
    tunnel.#timer = setInterval(() => void tunnel.#look(), sentinelEveryMs);
    return tunnel;
  }

  /** The primary and its state as its sentinels report it. */
  get primary(): SentinelAnswer {
    return this.#primary!;
  }

  /** Error of the last attempt to reach the primary; undefined if it succeeded. */
  get fault(): Error | undefined {
    return this.#fault;
  }

  /** Closes its connections too. */
  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#server.close();
    this.#cut();
    for (const sentinel of this.#sentinels) sentinel.close();
  }

  /** Finds the primary within half of the time limit of a start; the rest is for the primary itself. */
  async #untilFound(abort: AbortSignal | undefined): Promise<void> {
    const deadlineMs = performance.now() + this.#timings.startWithinMs / 2;
    for (;;) {
      await this.#look();
      abort?.throwIfAborted();
      if (this.#primary) return;
      const faults = [...this.#silent].map(([{ name }, { message }]) => `${name}: ${message}`);
      // Refusals (a wrong password, an unknown name) do not mend by themselves.
      const isRefused = [...this.#silent.values()].every((fault) => fault instanceof ErrorReply);
      if (isRefused || performance.now() > deadlineMs) {
        throw new Error(`no sentinel knows its primary (${faults.join('; ')})`);
      }
      await wait(RETRY_MS, undefined, { signal: abort });
    }
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const asked = await Promise.allSettled(this.#sentinels.map((sentinel) => sentinel.ask()));
    this.#isLooking = false;
    if (this.#isClosed) return;
    const answers = asked.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    this.#noteSilent(asked);
    const primary = choosePrimary(answers, this.#primary, this.#sentinels.length);
    if (primary) this.#follow(primary);
  }

  #follow(primary: SentinelAnswer): void {
    const before = this.#primary;
    this.#primary = primary;
    if (!before || isSameServer(before, primary)) return;
    const [from, to] = [before, primary].map(({ host, port }) => `${host}:${port}`);
    this.#log.warn({ from, to }, 'redis failed over; connecting to its new primary');
    this.#cut();
  }

  #noteSilent(asked: PromiseSettledResult<SentinelAnswer>[]): void {
    const before = this.#silent;
    this.#silent = new Map();
    for (const [index, sentinel] of this.#sentinels.entries()) {
      const result = asked[index]!;
      if (result.status === 'rejected') {
        const fault = result.reason as Error;
        this.#silent.set(sentinel, fault);
        const isNew = before.get(sentinel)?.message !== fault.message;
        if (isNew) this.#log.warn({ sentinel: sentinel.name, err: fault }, 'sentinel failed');
      } else if (before.has(sentinel)) {
        this.#log.info({ sentinel: sentinel.name }, 'sentinel answers again');
      }
    }
  }

  #carry(client: Socket): void {
    const primary = this.#connect();
    const ends = [client, primary];
    const timer = setTimeout(
      () => primary.destroy(new Error('the primary does not accept connections')),
      this.#timings.sentinelWithinMs,
    );
    primary.once(this.#watched.isTls ? 'secureConnect' : 'connect', () => {
      clearTimeout(timer);
      this.#fault = undefined;
    });
    primary.on('error', (fault) => (this.#fault = fault));
    // The client reports it, and connects again.
    client.on('error', () => {});
    for (const end of ends) {
      this.#carried.add(end);
      end.once('close', () => {
        clearTimeout(timer);
        for (const each of ends) {
          this.#carried.delete(each);
          each.destroy();
        }
      });
    }
    client.pipe(primary);
    primary.pipe(client);
  }

  #connect(): Socket {
    const { host, port } = this.primary;
    const options = {
      host,
      port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_AFTER_MS,
    };
    if (!this.#watched.isTls) return connect(options);
    return connectTls({ ...options, ...(isIP(host) === 0 && { servername: host }) });
  }

  #cut(): void {
    for (const end of this.#carried) end.destroy();
  }
}
