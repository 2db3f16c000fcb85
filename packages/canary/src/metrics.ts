import { createServer, type Server } from 'node:http';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { KINDS } from './peer.ts';
import type { Round } from './round.ts';

const JOIN_BUCKETS_S = [0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10];
const EAR_BUCKETS_S = [
  0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5,
];
const DIRECTION = ['from', 'to'] as const;

/** Measurements of all rounds, for Prometheus. */
export class CanaryMetrics {
  readonly registry = new Registry();
  readonly #rounds = this.#counter('rounds_total', 'Rounds, by result', ['result']);
  readonly #silent = this.#counter('silent_total', 'Directions that were silent', DIRECTION);
  readonly #joins = this.#histogram('join_seconds', 'Time to join', ['kind'], JOIN_BUCKETS_S);
  readonly #delays = this.#histogram(
    'mouth_to_ear_seconds',
    'Time from mouth to ear, the median of a round',
    DIRECTION,
    EAR_BUCKETS_S,
  );
  readonly #lost = this.#gauge('lost_ratio', 'Share of the last chirp that was lost', DIRECTION);
  readonly #level = this.#gauge('level_db', 'Level of the last chirp above that sent', DIRECTION);
  readonly #last = this.#gauge('last_round_timestamp_seconds', 'When the last round began', []);

  constructor() {
    // Counted from 0, so that the first of each shows as an increase.
    for (const result of ['heard', 'failed']) this.#rounds.inc({ result }, 0);
    for (const from of KINDS) for (const to of KINDS) this.#silent.inc({ from, to }, 0);
  }

  take({ at, directions, joins, faults }: Round): void {
    const isGood = faults.length === 0 && directions.every(({ isSilent }) => !isSilent);
    this.#rounds.inc({ result: isGood ? 'heard' : 'failed' });
    this.#last.set(at.getTime() / 1000);
    for (const { kind, joinMs } of joins) this.#joins.observe({ kind }, joinMs / 1000);
    for (const { from, to, isSilent, lostShare, mouthToEarMs, levelDb } of directions) {
      if (isSilent) this.#silent.inc({ from, to });
      this.#lost.set({ from, to }, lostShare);
      if (mouthToEarMs !== undefined) this.#delays.observe({ from, to }, mouthToEarMs / 1000);
      // The level of a chirp before it would stay.
      if (isSilent || levelDb === undefined) this.#level.remove({ from, to });
      else this.#level.set({ from, to }, levelDb);
    }
  }

  /** Serves `/metrics`. @throws {Error} if the port is taken */
  async listen(port: number, host: string | undefined): Promise<Server> {
    const server = createServer((request, response) => {
      if (request.url !== '/metrics') {
        response.writeHead(404).end();
        return;
      }
      this.registry.metrics().then(
        (text) => response.writeHead(200, { 'content-type': this.registry.contentType }).end(text),
        (fault: unknown) => response.writeHead(500).end(String(fault)),
      );
    });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject);
    server.listen(port, host, resolve);
    await promise;
    return server;
  }

  #counter(name: string, help: string, labelNames: readonly string[]) {
    return new Counter({ ...this.#common(name, help), labelNames });
  }

  #gauge(name: string, help: string, labelNames: readonly string[]) {
    return new Gauge({ ...this.#common(name, help), labelNames });
  }

  #histogram(name: string, help: string, labelNames: readonly string[], buckets: number[]) {
    return new Histogram({ ...this.#common(name, help), labelNames, buckets });
  }

  #common(name: string, help: string) {
    return { name: `partyline_canary_${name}`, help, registers: [this.registry] };
  }
}
