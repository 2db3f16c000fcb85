import type { FastifyBaseLogger } from 'fastify';
import { type Client, endClient } from './client.ts';
import type { ConnectionWatch, WatchedConnection } from './connection-watch.ts';

const RETRY_AFTER_MS = 200;

/** Listener to a channel. */
export type ChannelListener = {
  onMessage: (message: string) => void;
  /** Called after a gap: messages may have been missed while Redis was disconnected; commands can be run again. */
  onGap: () => void;
};

/** All subscriptions of this process, on one Redis connection that does nothing else. */
export class Subscriber {
  readonly #client: Client;
  readonly #commands: Client;
  readonly #log: FastifyBaseLogger;
  #watched: WatchedConnection | undefined;
  readonly #channels = new Map<string, Set<ChannelListener>>();

  /** Channels that are not subscribed yet. */
  readonly #waiting = new Map<ChannelListener, () => void>();
  /** Channels without listeners, until they are unsubscribed. */
  readonly #unwanted = new Set<string>();
  #hasGap = false;
  #retry: NodeJS.Timeout | undefined;

  private constructor(client: Client, commands: Client, log: FastifyBaseLogger) {
    this.#client = client;
    this.#commands = commands;
    this.#log = log;
  }

  /** @param commands the connection that runs the commands */
  static async open(client: Client, commands: Client, log: FastifyBaseLogger): Promise<Subscriber> {
    const subscriber = new Subscriber(client, commands, log);
    // The connection that runs the commands reports it.
    client.on('error', () => {});
    await client.connect();
    client.on('ready', () => subscriber.#isBack());
    commands.on('ready', () => {
      subscriber.#tellGap();
      subscriber.#checkConnection();
    });
    return subscriber;
  }

  /**
   * The other connection was lost: so may this one be, and nobody noticed, because it does nothing but wait. A
   * command over a dead connection ends the connection, and a new one is made.
   */
  #checkConnection(): void {
    if (!this.#client.isReady) return;
    this.#client.ping().catch((fault: unknown) => {
      this.#log.warn({ err: fault }, 'redis subscription connection lost');
    });
  }

  /** Has its connection watched from now on; each message is a sign of life. */
  beWatched(watch: ConnectionWatch): void {
    this.#watched = watch.add(this.#client);
  }

  /** Resolves when the channel is subscribed: if Redis is disconnected, after the reconnect. */
  async add(channel: string, listener: ChannelListener): Promise<void> {
    const listeners = this.#channels.get(channel) ?? new Set();
    this.#channels.set(channel, listeners.add(listener));
    const heard = new Promise<void>((resolve) => this.#waiting.set(listener, resolve));
    this.#subscribe(channel);
    return heard;
  }

  remove(channel: string, listener: ChannelListener): void {
    const listeners = this.#channels.get(channel);
    this.#waiting.delete(listener);
    if (!listeners?.delete(listener) || listeners.size > 0) return;
    this.#channels.delete(channel);
    this.#unsubscribe(channel);
  }

  close(): void {
    this.#channels.clear();
    this.#waiting.clear();
    this.#unwanted.clear();
    this.#hasGap = false;
    clearTimeout(this.#retry);
    endClient(this.#client);
  }

  /** The client hears a message once, also on a channel to which it is subscribed already. */
  #subscribe(channel: string): void {
    this.#client.subscribe(channel, this.#onMessage).then(
      () => this.#subscribed(channel),
      (fault: unknown) => {
        this.#log.warn({ err: fault, channel }, 'not subscribed; retrying when redis is back');
      },
    );
  }

  /** The client subscribes again to what it could not unsubscribe from, when it is back. */
  #unsubscribe(channel: string): void {
    this.#unwanted.add(channel);
    this.#client.unsubscribe(channel, this.#onMessage).then(
      () => this.#unwanted.delete(channel),
      (fault: unknown) => {
        this.#log.debug({ err: fault, channel }, 'not unsubscribed; retrying');
      },
    );
  }

  #subscribed(channel: string): void {
    for (const listener of this.#channels.get(channel) ?? []) {
      this.#waiting.get(listener)?.();
      this.#waiting.delete(listener);
    }
  }

  readonly #onMessage = (message: string, channel: string): void => {
    this.#watched?.answered();
    for (const { onMessage } of this.#channels.get(channel) ?? []) onMessage(message);
  };

  #isBack(): void {
    this.#hasGap = true;
    for (const channel of this.#unwanted) {
      if (this.#channels.has(channel)) this.#unwanted.delete(channel);
      else this.#unsubscribe(channel);
    }
    for (const channel of this.#channels.keys()) this.#subscribe(channel);
    this.#tellGap();
  }

  /**
   * A listener that is told of a gap runs commands to make up for it: the connection for commands may be back later
   * than this one, and Redis may have to load its data first.
   */
  #tellGap(): void {
    if (!this.#hasGap || !this.#client.isReady || !this.#commands.isReady) return;
    clearTimeout(this.#retry);
    this.#commands.ping().then(
      () => this.#gapCanBeMended(),
      () => {
        this.#retry = setTimeout(() => this.#tellGap(), RETRY_AFTER_MS);
      },
    );
  }

  #gapCanBeMended(): void {
    if (!this.#hasGap) return;
    this.#hasGap = false;
    for (const listeners of this.#channels.values()) {
      for (const { onGap } of listeners) onGap();
    }
  }
}
