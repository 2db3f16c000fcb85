import type { FastifyBaseLogger } from 'fastify';
import type { Client } from './redis.ts';

/** Who hears a channel. */
export type ChannelListener = {
  onMessage: (message: string) => void;
  /** Messages may have been missed, because Redis was away. */
  onGap: () => void;
};

/** All that this process hears over Redis, on one connection that does nothing else; a channel has one listener. */
export class Subscriber {
  readonly #client: Client;
  readonly #log: FastifyBaseLogger;
  readonly #listeners = new Map<string, ChannelListener & { onSubscribed: () => void }>();

  private constructor(client: Client, log: FastifyBaseLogger) {
    this.#client = client;
    this.#log = log;
  }

  static async open(client: Client, log: FastifyBaseLogger): Promise<Subscriber> {
    const subscriber = new Subscriber(client, log);
    // The connection that runs the commands tells of it.
    client.on('error', () => {});
    await client.connect();
    client.on('ready', () => subscriber.#isBack());
    return subscriber;
  }

  /**
   * Resolves when the channel is heard: when Redis is away, once it is back.
   * @throws {Error} if the channel has a listener
   */
  async add(channel: string, listener: ChannelListener): Promise<void> {
    if (this.#listeners.has(channel)) throw new Error(`${channel} has a listener`);
    const subscribed = Promise.withResolvers<void>();
    this.#listeners.set(channel, { ...listener, onSubscribed: subscribed.resolve });
    this.#subscribe(channel);
    return subscribed.promise;
  }

  remove(channel: string): void {
    if (!this.#listeners.delete(channel)) return;
    this.#client.unsubscribe(channel, this.#onMessage).catch((fault: unknown) => {
      this.#log.debug({ err: fault, channel }, 'not unsubscribed; what comes is dropped');
    });
  }

  close(): void {
    this.#listeners.clear();
    this.#client.destroy();
  }

  #subscribe(channel: string): void {
    this.#client.subscribe(channel, this.#onMessage).then(
      () => this.#listeners.get(channel)?.onSubscribed(),
      (fault: unknown) => {
        this.#log.warn({ err: fault, channel }, 'not subscribed; tried again when redis is back');
      },
    );
  }

  readonly #onMessage = (message: string, channel: string): void => {
    this.#listeners.get(channel)?.onMessage(message);
  };

  /** The client itself subscribes again to what it was subscribed to; once more does no harm. */
  #isBack(): void {
    for (const [channel, listener] of this.#listeners) {
      this.#subscribe(channel);
      listener.onGap();
    }
  }
}
