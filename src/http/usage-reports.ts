import { addAbortSignal, Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { ReportQueue } from '../usage/report-queue.ts';
import { jsonOfReport } from '../usage/report-json.ts';
import { reportUsage, type UsageQuery } from '../usage/report.ts';
import type { UsageReader } from '../usage/usage-reader.ts';

/**
 * Answers with reports of usage: JSON that is written as it is read, so that the report of a busy month neither blocks the
 * event loop nor takes much memory. The reports of an account are sent one after the other.
 */
export class UsageReports {
  readonly #reader: Pick<UsageReader, 'read'>;
  readonly #wallMs: () => number;
  readonly #queue: ReportQueue;
  readonly #withinMs: number;

  /** @param wallMs clock by which minutes are counted, ms since 1970 */
  constructor(reader: Pick<UsageReader, 'read'>, wallMs: () => number, timings: Timings['usage']) {
    this.#reader = reader;
    this.#wallMs = wallMs;
    this.#queue = new ReportQueue(timings.reportRetryAfterMs);
    this.#withinMs = timings.reportWithinMs;
  }

  /** @throws {PartylineError} `bad_request`, `rate_limited`, `overloaded` */
  async send(reply: FastifyReply, accountId: number, query: UsageQuery): Promise<FastifyReply> {
    const report = reportUsage(this.#reader, accountId, query, this.#wallMs());
    const endTurn = await this.#queue.take(accountId);
    try {
      // Faults of Redis get an error response until the first byte has been sent.
      const first = await report.records.next();
      const stream = Readable.from(jsonOfReport(report, first.done ? [] : first.value));
      // A slower client is disconnected.
      addAbortSignal(AbortSignal.timeout(this.#withinMs), stream);
      stream.once('close', endTurn);
      return await reply.type('application/json; charset=utf-8').send(stream);
    } catch (fault) {
      endTurn();
      throw fault;
    }
  }
}
