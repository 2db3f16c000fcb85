import { randomUUID } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import { ClientClosedError, ClientOfflineError, ErrorReply } from 'redis';
import type { Timings } from '../../config/timings.ts';
import { PartylineError } from '../protocol/errors.ts';
import {
  type Client,
  dropLateSocket,
  endClient,
  nameOf,
  newRedisClient,
  type RedisAddress,
  type ServerAddress,
} from './client.ts';
import { ConnectionWatch, type WatchedConnection } from './connection-watch.ts';
import { KEY_PREFIX, WRITE_CHECK } from './keys.ts';
import { PrimaryTunnel } from './primary-tunnel.ts';
import { logOnceASecond } from '../log-once-a-second.ts';
import { limitTime } from '../time-limit.ts';
import type { SentinelAnswer } from './sentinel.ts';
import { type ChannelListener, Subscriber } from './subscriber.ts';
import { connectClient, type RedisWait, within } from './wait-for-redis.ts';

/** Number of attempts to connect at a start, about 5 s: Redis may have been started at the same moment. */
const FIRST_RETRIES = 9;

/** Errors of Redis that an operator can fix, by their first word. */
const REFUSALS =
  /^(MISCONF|OOM|READONLY|LOADING|NOAUTH|WRONGPASS|NOPERM|BUSY|MASTERDOWN|NOREPLICAS|CLUSTERDOWN) /;

type ConnectOptions = Partial<Pick<RedisWait, 'abort' | 'onLoading'>>;

/** The store of all shared state. A command that Redis does not answer in time fails; no command waits for a reconnect. */
export class Redis {
  /** Data folder of the gateway's own Redis; undefined for an operator's. */
  readonly ownDataDir: string | undefined;
  /** Address for further connections of this process to the same Redis, until this one is closed. */
  readonly address: ServerAddress;
  readonly #tunnel: PrimaryTunnel | undefined;
  readonly #client: Client;
  readonly #logUnanswered: (fault: unknown) => void;
  readonly #subscriber: Subscriber;
  readonly #watch: ConnectionWatch;
  readonly #watched: WatchedConnection;
  readonly #timings: Timings['redis'];
  #replies = 0;

  private constructor(
    { address, tunnel }: Access,
    client: Client,
    subscriber: Subscriber,
    log: FastifyBaseLogger,
    timings: Timings['redis'],
  ) {
    this.ownDataDir = 'dataDir' in address ? address.dataDir : undefined;
    this.address = address;
    this.#tunnel = tunnel;
    this.#client = client;
    this.#subscriber = subscriber;
    this.#watch = new ConnectionWatch(address, timings, log);
    this.#watched = this.#watch.add(client);
    subscriber.beWatched(this.#watch);
    this.#logUnanswered = logOnceASecond(log, 'redis did not answer', 'warn');
    this.#timings = timings;
  }

  /**
   * Connects, and waits for as long as Redis loads its data.
   * @param options abort signal, and a listener for the progress of Redis (by default, the log)
   * @throws {Error} if Redis cannot be reached within some seconds; later it may disconnect and reconnect
   */
  static async connect(
    address: RedisAddress,
    log: FastifyBaseLogger,
    timings: Timings['redis'],
    { abort, onLoading = logLoading(log) }: ConnectOptions = {},
  ): Promise<Redis> {
    const waiting: RedisWait = { timings, onLoading, abort };
    let tunnel: PrimaryTunnel | undefined;
    try {
      const access = await findAccess(address, log, waiting);
      tunnel = access.tunnel;
      return await Redis.#connect(access, log, waiting);
    } catch (fault) {
      tunnel?.close();
      abort?.throwIfAborted();
      // A client behind the tunnel knows only that it was disconnected.
      throw unreachable(address, tunnel?.fault ?? fault);
    }
  }

  static async #connect(
    access: Access,
    log: FastifyBaseLogger,
    waiting: RedisWait,
  ): Promise<Redis> {
    const { timings } = waiting;
    let isConnected = false;
    let hasConnected = false;
    const client = newRedisClient(access.address, timings, {
      name: newName('commands'),
      mayRetry: (retries) => hasConnected || retries < FIRST_RETRIES,
    });
    client.on('error', (fault: unknown) => {
      if (isConnected) log.warn({ err: fault }, 'redis disconnected');
      isConnected = false;
    });
    client.on('ready', () => {
      isConnected = true;
      hasConnected = true;
      log.info('redis connected');
    });
    await connectClient(client, waiting);
    const subscribing = client.duplicate({ name: newName('subscriptions') });
    try {
      const subscriber = await within(Subscriber.open(subscribing, client, log), waiting);
      return new Redis(access, client, subscriber, log, timings);
    } catch (fault) {
      for (const opened of [client, subscribing]) endClient(opened);
      throw fault;
    }
  }

  /** The primary as its sentinels describe it; undefined if no sentinels are configured. */
  get watched(): SentinelAnswer | undefined {
    return this.#tunnel?.primary;
  }

  /** Number of commands that Redis has answered in time, also with an error. */
  get replies(): number {
    return this.#replies;
  }

  /** False while Redis is disconnected, when every command fails at once. */
  get isReady(): boolean {
    return this.#client.isReady;
  }

  /** Client for libraries that have commands of their own, to be called within {@link run}. */
  get client(): Client {
    return this.#client;
  }

  /**
   * Runs commands.
   * @throws {PartylineError} `overloaded` when Redis does not answer, or refuses them, with its own message
   */
  async run<T>(commands: (client: Client) => Promise<T>): Promise<T> {
    return this.#inTime(() => {
      const running = commands(this.#client);
      void this.#watched.awaitAnswer(running);
      return running;
    });
  }

  /** Waits for an answer of Redis, over any connection. @throws {PartylineError} as {@link run} does */
  async #inTime<T>(begin: () => Promise<T>): Promise<T> {
    const { commandTimeoutMs, retryAfterMs } = this.#timings;
    const late = Promise.withResolvers<never>();
    const endLimit = limitTime(commandTimeoutMs, () => {
      late.reject(new Error(`redis took more than ${commandTimeoutMs} ms`));
    });
    try {
      // The client's own time-out covers only commands that it has not sent yet.
      const reply = await Promise.race([begin(), late.promise]);
      this.#replies += 1;
      return reply;
    } catch (cause) {
      if (cause instanceof ErrorReply) this.#replies += 1;
      // The disconnection has been logged.
      if (this.#client.isReady) this.#logUnanswered(cause);
      const options = { cause, retryAfterMs };
      throw new PartylineError('overloaded', describeFault(cause), options);
    } finally {
      endLimit();
    }
  }

  /**
   * Subscribes to a channel from now on, or from the reconnect if Redis is disconnected.
   * @returns a function that ends the subscription
   */
  async subscribe(channel: string, listener: ChannelListener): Promise<() => void> {
    const name = this.channelOf(channel);
    const subscribed = this.#subscriber.add(name, listener);
    try {
      // The answer comes over the other connection, and says nothing of that for commands.
      await this.#inTime(() => subscribed);
    } catch {
      // It has been logged.
      void subscribed.then(listener.onGap);
    }
    return () => this.#subscriber.remove(name, listener);
  }

  /** Sends a message to a channel. @throws {PartylineError} `overloaded` */
  async publish(channel: string, message: string): Promise<void> {
    await this.run((client) => client.publish(this.channelOf(channel), message));
  }

  /**
   * Returns the name of a channel for commands and scripts. A server has one set of channels for all its databases: names in
   * other databases than 0 have the number behind the prefix, so that installations in two of them do not hear each other.
   */
  channelOf(channel: string): string {
    const database = this.#client.options.database ?? 0;
    // Not at the end: a channel ends with the name of a room, which may end with anything.
    return database === 0
      ? channel
      : `${KEY_PREFIX}@${database}:${channel.slice(KEY_PREFIX.length)}`;
  }

  /**
   * Calls a listener after each reconnect: Redis may have lost, or be a replica that has not received, what it had confirmed.
   * @returns a function that ends this
   */
  onReconnect(listener: () => void): () => void {
    this.#client.on('ready', listener);
    return () => this.#client.off('ready', listener);
  }

  /** Returns true if Redis answers and accepts writes. */
  async isAvailable(): Promise<boolean> {
    try {
      await this.run((client) => client.set(WRITE_CHECK, '', { condition: 'XX' }));
      return true;
    } catch {
      // It has been logged.
      return false;
    }
  }

  /** Waits for pending commands, such as releases of leases, but not for a Redis that is disconnected. */
  async close(): Promise<void> {
    this.#watch.close();
    this.#subscriber.close();
    dropLateSocket(this.#client);
    const late = Promise.withResolvers<void>();
    const giveUp = setTimeout(() => {
      this.#client.destroy();
      // The client's own promise stays pending if its connection was lost after the call.
      late.resolve();
    }, this.#timings.commandTimeoutMs);
    try {
      // It is closed for a moment while its connection is replaced.
      if (this.#client.isOpen) await Promise.race([this.#client.close(), late.promise]);
    } finally {
      clearTimeout(giveUp);
      this.#tunnel?.close();
    }
  }
}

/** Returns a name for a connection at Redis, for operators and for {@link ConnectionWatch}. */
const newName = (purpose: string) => `partyline-${purpose}-${randomUUID()}`;

/**
 * Returns whether the commands of a {@link Redis.run} that failed may have taken effect: they were sent, and Redis did not refuse
 * them.
 */
export function mayHaveRun(fault: unknown): boolean {
  if (!(fault instanceof PartylineError && fault.code === 'overloaded')) return false;
  return !(fault.cause instanceof ErrorReply || wasNotSent(fault.cause));
}

const wasNotSent = (cause: unknown) =>
  cause instanceof ClientOfflineError ||
  cause instanceof ClientClosedError ||
  // node-redis has no class for it.
  (cause instanceof Error && cause.message === 'The queue is full');

const unreachable = (address: RedisAddress, cause: unknown) =>
  new Error(`Redis at ${nameOf(address)} cannot be reached`, { cause });

/** Access to a Redis: the address for clients of this process, and the tunnel behind it, if sentinels are configured. */
type Access = { address: ServerAddress; tunnel?: PrimaryTunnel };

async function findAccess(
  address: RedisAddress,
  log: FastifyBaseLogger,
  { timings, abort }: RedisWait,
): Promise<Access> {
  if (!('watched' in address)) return { address };
  const { username, password, database } = address.watched;
  const login = { ...(username && { username }), ...(password && { password }), database };
  const tunnel = await PrimaryTunnel.open({ ...address, timings, abort }, log);
  return { address: { socketPath: tunnel.socketPath, login }, tunnel };
}

const logLoading = (log: FastifyBaseLogger) => (percent: number) => {
  log.warn({ percent }, 'redis loading its data');
};

function describeFault(cause: unknown): string {
  if (cause instanceof ErrorReply && REFUSALS.test(cause.message)) {
    return `The store refused: ${cause.message}`;
  }
  return 'The store cannot be reached.';
}
