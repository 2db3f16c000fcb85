import { randomUUID } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Timings } from '../../config/timings.ts';
import { limitTime } from '../time-limit.ts';
import type { Bus } from './bus.ts';
import type { Nodes } from './nodes.ts';

/** Messages over the bus; their fields have the names that nodes of earlier versions send. */
const CallSchema = Type.Object({ id: Type.String(), question: Type.Unknown() });
const ReplySchema = Type.Object({ id: Type.String(), answer: Type.Unknown() });

/** Replies of the nodes that were called. */
export type Replies<T> = {
  /** By node. */
  replies: Map<string, T>;
  /** Living nodes that did not reply in time. */
  unreachable: string[];
};

/** Calls one node, or all; a node that does not live gives no reply. @throws {PartylineError} `overloaded` */
export type RemoteCall<Request, Reply> = (
  request: Request,
  node?: string,
) => Promise<Replies<Reply>>;

/** Calls to all living nodes or to one, with their replies. They go over the bus, except those to this node itself. */
export class ClusterRpc {
  readonly #nodes: Nodes;
  readonly #bus: Bus;
  readonly #log: FastifyBaseLogger;
  readonly #answerWithinMs: number;
  /** By the id of the call. */
  readonly #waiting = new Map<string, (reply: unknown, from: string) => void>();

  constructor(
    nodes: Nodes,
    bus: Bus,
    log: FastifyBaseLogger,
    { answerWithinMs }: Timings['nodes'],
  ) {
    this.#nodes = nodes;
    this.#bus = bus;
    this.#log = log;
    this.#answerWithinMs = answerWithinMs;
    bus.on('answer', ReplySchema, ({ id, answer }, from) => this.#waiting.get(id)?.(answer, from));
  }

  /**
   * Registers this node's handler of a kind of calls.
   * @param handler never rejects
   * @param answerWithinMs time that other nodes have to reply
   * @returns a function that calls all nodes, or one
   */
  handle<Q extends TSchema, R extends TSchema>(
    kind: string,
    requestSchema: Q,
    replySchema: R,
    handler: (request: Static<Q>) => Static<R> | Promise<Static<R>>,
    answerWithinMs = this.#answerWithinMs,
  ): RemoteCall<Static<Q>, Static<R>> {
    const [requests, bodies] = [Compile(requestSchema), Compile(replySchema)];
    this.#bus.on(kind, CallSchema, ({ id, question: request }, from) => {
      if (from === this.#nodes.id) return;
      if (requests.Check(request)) this.#reply(from, id, handler(request));
      else this.#log.error({ kind }, 'call of a node rejected: bad format');
    });
    return async (request, node) => {
      const living = await this.#nodes.list();
      const called = new Set([...living].filter((each) => node === undefined || each === node));
      const replies = new Map<string, Static<R>>();
      if (called.delete(this.#nodes.id)) replies.set(this.#nodes.id, await handler(request));
      await this.#call(kind, request, called, answerWithinMs, (from, body) => {
        if (bodies.Check(body)) return replies.set(from, body);
        this.#log.error({ kind, node: from }, 'reply of a node rejected: bad format');
        return undefined;
      });
      return { replies, unreachable: [...called] };
    };
  }

  #reply(to: string, id: string, given: unknown): void {
    const replying = (async () => {
      const message: Static<typeof ReplySchema> = { id, answer: await given };
      await this.#bus.sendTo(to, 'answer', message);
    })();
    replying.catch((fault: unknown) => {
      this.#log.warn({ err: fault, node: to }, 'call of a node not answered');
    });
  }

  /** Resolves when all nodes in `called` have replied, or the time is over; each node is removed from `called` as it replies. */
  async #call(
    kind: string,
    request: unknown,
    called: Set<string>,
    answerWithinMs: number,
    take: (from: string, reply: unknown) => unknown,
  ): Promise<void> {
    if (called.size === 0) return;
    const id = randomUUID();
    const all = Promise.withResolvers<void>();
    const endLimit = limitTime(answerWithinMs, all.resolve);
    this.#waiting.set(id, (reply, from) => {
      if (called.has(from) && take(from, reply)) called.delete(from);
      if (called.size === 0) all.resolve();
    });
    const message: Static<typeof CallSchema> = { id, question: request };
    try {
      const [only] = called;
      if (called.size === 1) await this.#bus.sendTo(only!, kind, message);
      else await this.#bus.send(kind, message);
      await all.promise;
    } finally {
      endLimit();
      this.#waiting.delete(id);
    }
  }
}
