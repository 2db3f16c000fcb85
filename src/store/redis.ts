import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { PartylineError } from '../protocol/errors.ts';
import { type Client, nameOf, newRedisClient, type RedisAddress } from './client.ts';
import { type ChannelListener, Subscriber } from './subscriber.ts';

/** It may have been started at the same moment: this takes 5 s. */
const FIRST_RETRIES = 9;

/** Every key of the gateway begins so. */
export const KEY_PREFIX = 'partyline:';

/** The store of all shared state. A command that Redis does not answer in time fails; none waits for it to come back. */
export class Redis {
  readonly #client: Client;
  readonly #log: FastifyBaseLogger;
  readonly #subscriber: Subscriber;
  readonly #timings: Timings['redis'];

  private constructor(
    client: Client,
    subscriber: Subscriber,
    log: FastifyBaseLogger,
    timings: Timings['redis'],
  ) {
    this.#client = client;
    this.#subscriber = subscriber;
    this.#log = log;
    this.#timings = timings;
  }

  /** @throws {Error} if Redis cannot be reached within some seconds; later it may go away and come back */
  static async connect(
    address: RedisAddress,
    log: FastifyBaseLogger,
    timings: Timings['redis'],
  ): Promise<Redis> {
    let isConnected = false;
    let hasConnected = false;
    const client = newRedisClient(address, timings, {
      mayRetry: (retries) => hasConnected || retries < FIRST_RETRIES,
    });
    client.on('error', (fault: unknown) => {
      if (isConnected) log.warn({ err: fault }, 'redis is away');
      isConnected = false;
    });
    client.on('ready', () => {
      isConnected = true;
      hasConnected = true;
      log.info('redis is there');
    });
    try {
      await client.connect();
    } catch (cause) {
      throw new Error(`Redis at ${nameOf(address)} cannot be reached`, { cause });
    }
    const subscriber = await Subscriber.open(client.duplicate(), client, log);
    return new Redis(client, subscriber, log, timings);
  }

  /** For libraries that have commands of their own; they are to be called within {@link run}. */
  get client(): Client {
    return this.#client;
  }

  /**
   * Runs commands.
   * @throws {PartylineError} `overloaded` when Redis does not answer
   */
  async run<T>(commands: (client: Client) => Promise<T>): Promise<T> {
    const { commandTimeoutMs, retryAfterMs } = this.#timings;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      const fault = new Error(`redis took more than ${commandTimeoutMs} ms`);
      timer = setTimeout(() => reject(fault), commandTimeoutMs);
    });
    try {
      // The client's own time-out covers only commands that it has not sent yet.
      return await Promise.race([commands(this.#client), late]);
    } catch (cause) {
      // That it is away has been said.
      if (this.#client.isReady) this.#log.warn({ err: cause }, 'redis did not answer');
      const options = { cause, retryAfterMs };
      throw new PartylineError('overloaded', 'The store cannot be reached.', options);
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Hears what is published on a channel from now on; when Redis is away, from when it is back.
   * @returns ends it
   */
  async subscribe(channel: string, listener: ChannelListener): Promise<() => void> {
    const subscribed = this.#subscriber.add(channel, listener);
    try {
      await this.run(() => subscribed);
    } catch {
      // It has been logged.
      void subscribed.then(listener.onGap);
    }
    return () => this.#subscriber.remove(channel, listener);
  }

  /** Whether Redis answers. */
  async isThere(): Promise<boolean> {
    try {
      await this.run((client) => client.ping());
      return true;
    } catch {
      // It has been logged.
      return false;
    }
  }

  /** Waits for what was asked for, leases given back among it; but not for a Redis that is away. */
  async close(): Promise<void> {
    this.#subscriber.close();
    const giveUp = setTimeout(() => this.#client.destroy(), this.#timings.commandTimeoutMs);
    try {
      await this.#client.close();
    } finally {
      clearTimeout(giveUp);
    }
  }
}
