import { randomUUID } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Timings } from '../../config/timings.ts';
import { limitTime } from '../time-limit.ts';
import type { Bus } from './bus.ts';
import type { Nodes } from './nodes.ts';

const QuestionSchema = Type.Object({ id: Type.String(), question: Type.Unknown() });
const AnswerSchema = Type.Object({ id: Type.String(), answer: Type.Unknown() });

/** Answers of the nodes that were asked. */
export type Answers<T> = {
  /** By node. */
  answers: Map<string, T>;
  /** Living nodes that did not answer in time. */
  unreachable: string[];
};

/** Asks one node, or all; a node that does not live gives no answer. @throws {PartylineError} `overloaded` */
export type Ask<Question, Answer> = (question: Question, node?: string) => Promise<Answers<Answer>>;

/** Requests to all living nodes or to one, with their answers. They go over the bus, except those to this node itself. */
export class ClusterRpc {
  readonly #nodes: Nodes;
  readonly #bus: Bus;
  readonly #log: FastifyBaseLogger;
  readonly #answerWithinMs: number;
  /** By the id of the question. */
  readonly #waiting = new Map<string, (answer: unknown, from: string) => void>();

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
    bus.on('answer', AnswerSchema, ({ id, answer }, from) => this.#waiting.get(id)?.(answer, from));
  }

  /**
   * Registers this node's answer to a kind of question.
   * @param answer never rejects
   * @param answerWithinMs time that other nodes have to answer
   * @returns a function that asks all nodes, or one
   */
  define<Q extends TSchema, A extends TSchema>(
    kind: string,
    questionSchema: Q,
    answerSchema: A,
    answer: (question: Static<Q>) => Static<A> | Promise<Static<A>>,
    answerWithinMs = this.#answerWithinMs,
  ): Ask<Static<Q>, Static<A>> {
    const [questions, answers] = [Compile(questionSchema), Compile(answerSchema)];
    this.#bus.on(kind, QuestionSchema, ({ id, question }, from) => {
      if (from === this.#nodes.id) return;
      if (questions.Check(question)) this.#answer(from, id, answer(question));
      else this.#log.error({ kind }, 'question of a node rejected: bad format');
    });
    return async (question, node) => {
      const living = await this.#nodes.list();
      const asked = new Set([...living].filter((each) => node === undefined || each === node));
      const given = new Map<string, Static<A>>();
      if (asked.delete(this.#nodes.id)) given.set(this.#nodes.id, await answer(question));
      await this.#gather(kind, question, asked, answerWithinMs, (from, body) => {
        if (answers.Check(body)) return given.set(from, body);
        this.#log.error({ kind, node: from }, 'answer of a node rejected: bad format');
        return undefined;
      });
      return { answers: given, unreachable: [...asked] };
    };
  }

  #answer(to: string, id: string, given: unknown): void {
    const answering = (async () => {
      const message: Static<typeof AnswerSchema> = { id, answer: await given };
      await this.#bus.sendTo(to, 'answer', message);
    })();
    answering.catch((fault: unknown) => {
      this.#log.warn({ err: fault, node: to }, 'question of a node not answered');
    });
  }

  /** Resolves when all nodes in `asked` have answered, or the time is over; each node is removed from `asked` as it answers. */
  async #gather(
    kind: string,
    question: unknown,
    asked: Set<string>,
    answerWithinMs: number,
    take: (from: string, answer: unknown) => unknown,
  ): Promise<void> {
    if (asked.size === 0) return;
    const id = randomUUID();
    const all = Promise.withResolvers<void>();
    const endLimit = limitTime(answerWithinMs, all.resolve);
    this.#waiting.set(id, (answer, from) => {
      if (asked.has(from) && take(from, answer)) asked.delete(from);
      if (asked.size === 0) all.resolve();
    });
    try {
      const [only] = asked;
      if (asked.size === 1) await this.#bus.sendTo(only!, kind, { id, question });
      else await this.#bus.send(kind, { id, question });
      await all.promise;
    } finally {
      endLimit();
      this.#waiting.delete(id);
    }
  }
}
