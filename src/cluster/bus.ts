import type { FastifyBaseLogger } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { BUS_CHANNEL, nodeBusChannel } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { counters } from '../counters.ts';
import { FORMAT } from '../store/state-format.ts';
import type { Sealer } from './sealer.ts';

const EnvelopeSchema = Type.Object({
  format: Type.Integer(),
  from: Type.String(),
  /** Grows with each message of a node: a message whose number has been seen is a replay. */
  version: Type.Integer(),
  kind: Type.String(),
  body: Type.Unknown(),
});
const envelopes = Compile(EnvelopeSchema);
type Envelope = Static<typeof EnvelopeSchema>;

/**
 * Messages from a node to all others, or to one of them. A node that is not running, or cannot reach Redis, misses
 * them.
 */
export class Bus {
  readonly #redis: Redis;
  readonly #sealer: Sealer;
  /** This node. */
  readonly node: string;
  readonly #log: FastifyBaseLogger;
  readonly #handlers = new Map<string, (body: unknown, from: string) => void>();
  readonly #versions = new Map<string, number>();
  #version = 0;

  private constructor(redis: Redis, sealer: Sealer, node: string, log: FastifyBaseLogger) {
    this.#redis = redis;
    this.#sealer = sealer;
    this.node = node;
    this.#log = log;
  }

  static async open(
    redis: Redis,
    sealer: Sealer,
    node: string,
    log: FastifyBaseLogger,
  ): Promise<Bus> {
    const bus = new Bus(redis, sealer, node, log);
    for (const channel of [BUS_CHANNEL, nodeBusChannel(node)]) {
      await redis.subscribe(channel, {
        onMessage: (message) => bus.#receive(message, channel),
        onGap: () => {},
      });
    }
    return bus;
  }

  /** Listens to messages of a kind, including those of this node. */
  on<T extends TSchema>(
    kind: string,
    schema: T,
    handler: (body: Static<T>, from: string) => void,
  ): void {
    const validator = Compile(schema);
    this.#handlers.set(kind, (body, from) => {
      if (validator.Check(body)) handler(body, from);
      else this.#log.error({ kind }, 'message of a node rejected: bad format');
    });
  }

  /** @throws {PartylineError} `overloaded` */
  send(kind: string, body: unknown): Promise<void> {
    return this.#publish(BUS_CHANNEL, kind, body);
  }

  /** Sends a message to one node. @throws {PartylineError} `overloaded` */
  sendTo(node: string, kind: string, body: unknown): Promise<void> {
    return this.#publish(nodeBusChannel(node), kind, body);
  }

  /** Forgets a node that has left or died. */
  forget(node: string): void {
    this.#versions.delete(node);
  }

  async #publish(channel: string, kind: string, body: unknown): Promise<void> {
    this.#version += 1;
    const envelope: Envelope = {
      format: FORMAT,
      from: this.node,
      version: this.#version,
      kind,
      body,
    };
    const sealed = this.#sealer.seal(JSON.stringify(envelope), channel);
    await this.#redis.publish(channel, sealed);
  }

  #receive(sealed: string, channel: string): void {
    let envelope: unknown;
    try {
      envelope = JSON.parse(this.#sealer.unseal(sealed, channel));
    } catch (fault) {
      counters.sealFaults += 1;
      this.#log.error({ err: fault }, 'message rejected: bad seal');
      return;
    }
    if (!envelopes.Check(envelope)) return;
    const { format, from, version, kind, body } = envelope;
    if (format !== FORMAT) {
      this.#log.warn({ node: from, format }, 'message of a node ignored: other format');
      return;
    }
    if (version <= (this.#versions.get(from) ?? 0)) return;
    this.#versions.set(from, version);
    this.#handlers.get(kind)?.(body, from);
  }
}
