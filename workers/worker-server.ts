import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { FastifyBaseLogger } from 'fastify';
import { Counter, Gauge, Registry } from 'prom-client';
import type { Settings } from '../config/settings.ts';
import { nameFaults } from '../src/listen-address.ts';
import { collectProcessMetrics } from '../src/process-metrics.ts';
import type { RedisClock } from '../src/store/redis-clock.ts';
import type { Redis } from '../src/store/redis.ts';
import { VERSION } from '../src/version.ts';
import { workerCounters } from './worker-counters.ts';

/** Maximum number of connections; further ones are closed on arrival. Prometheus and health checks need one each. */
const MAX_CONNECTIONS = 100;
/** Time that a request has to arrive, ms. */
const REQUEST_TIMEOUT_MS = 10_000;
type WorkerServerParts = {
  redis: Pick<Redis, 'isAvailable'>;
  clock: Pick<RedisClock, 'offsetMs'>;
  /** Interval in which requests for /metrics get the same figures: each asks Redis. */
  scrapeEveryMs: number;
};

export type WorkerServer = { close(): void };

/**
 * Serves `/metrics` and `/healthz` of a usage worker, readable by every client that reaches the port.
 * @throws {Error} if the port is not available
 */
export async function openWorkerServer(
  { HOST: host, WORKER_PORT: port }: Pick<Settings, 'HOST' | 'WORKER_PORT'>,
  { log, ...parts }: WorkerServerParts & { log: FastifyBaseLogger },
): Promise<WorkerServer> {
  const metrics = new WorkerMetrics(parts);
  const limits = { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS };
  const server = createServer(limits, (request, response) => {
    answer(request, response, metrics).catch((fault: unknown) => {
      log.error({ err: fault }, 'request not answered');
      response.destroy();
    });
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.listen({ host, port });
  await nameFaults({ HOST: host, WORKER_PORT: port }, once(server, 'listening'));
  return {
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function answer(
  { method = '', url = '' }: IncomingMessage,
  response: ServerResponse,
  metrics: WorkerMetrics,
): Promise<void> {
  const send = (status: number, type: string, body: string) =>
    response.writeHead(status, { 'content-type': type }).end(method === 'HEAD' ? '' : body);
  const [path] = url.split('?');
  if (!['GET', 'HEAD'].includes(method)) send(405, 'text/plain', 'only GET\n');
  else if (path === '/metrics') send(200, metrics.contentType, await metrics.read());
  else if (path === '/healthz') {
    send(200, 'application/json', JSON.stringify({ status: 'ok', version: VERSION }));
  } else send(404, 'text/plain', 'only /metrics and /healthz\n');
}

/** Metrics of a usage worker (docs/operations/watch.md); those that gateways have, too, have the same names. */
class WorkerMetrics {
  readonly #registry = new Registry();
  readonly #parts: WorkerServerParts;
  readonly #redisUp = this.#gauge('redis_up', 'Whether Redis answers and accepts writes');
  readonly #clockOffset = this.#gauge(
    'clock_offset_seconds',
    "How far this machine's clock is ahead of Redis's",
  );
  readonly #minutesClosed = this.#counter('minutes_closed_total', 'Minutes that it has closed');
  readonly #requests = this.#counter('webhook_requests_total', 'Requests to webhooks, by result', [
    'result',
  ]);
  readonly #faults = this.#counter('worker_faults_total', 'Faults after which work was retried');
  #last: { atMs: number; page: Promise<string> } | undefined;

  constructor(parts: WorkerServerParts) {
    this.#parts = parts;
    collectProcessMetrics(this.#registry);
    this.#gauge('build_info', 'Always 1; the label is the running version', ['version']).set(
      { version: VERSION },
      1,
    );
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Returns the metrics of this moment, or the last ones within the interval. */
  read(): Promise<string> {
    const nowMs = performance.now();
    if (!this.#last || nowMs - this.#last.atMs >= this.#parts.scrapeEveryMs) {
      this.#last = { atMs: nowMs, page: this.#write() };
    }
    return this.#last.page;
  }

  async #write(): Promise<string> {
    this.#redisUp.set((await this.#parts.redis.isAvailable()) ? 1 : 0);
    this.#clockOffset.set(this.#parts.clock.offsetMs / 1000);
    const { minutesClosed, webhookRequests, faults } = workerCounters;
    setCounter(this.#minutesClosed, {}, minutesClosed);
    for (const [result, count] of Object.entries(webhookRequests)) {
      setCounter(this.#requests, { result }, count);
    }
    setCounter(this.#faults, {}, faults);
    return this.#registry.metrics();
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    const registers = [this.#registry];
    return new Counter({ name: `partyline_${name}`, help, labelNames, registers });
  }

  #gauge(name: string, help: string, labelNames: string[] = []): Gauge {
    const registers = [this.#registry];
    return new Gauge({ name: `partyline_${name}`, help, labelNames, registers });
  }
}

function setCounter(counter: Counter, labels: Record<string, string>, value: number): void {
  counter.remove(labels);
  counter.inc(labels, value);
}
