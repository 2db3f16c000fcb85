import type { Server } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { counters } from '../counters.ts';

/** Interval at which the log says that connections are not accepted, ms. */
const LOG_EVERY_MS = 60_000;

/** Limits the connections of a server to the number of free descriptors. */
export class ConnectionLimit {
  readonly #server: Server;
  readonly #log: FastifyBaseLogger;
  #loggedAtMs = -Infinity;

  constructor(server: Server, log: FastifyBaseLogger) {
    this.#server = server;
    this.#log = log;
    server.on('drop', () => this.#dropped());
  }

  /** Sets how many more connections may be accepted from now on. */
  allow(more: number): void {
    this.#server.getConnections((fault, count) => {
      if (!fault) this.#server.maxConnections = count + more;
    });
  }

  #dropped(): void {
    counters.connectionsNotAccepted += 1;
    const nowMs = performance.now();
    if (nowMs - this.#loggedAtMs < LOG_EVERY_MS) return;
    this.#loggedAtMs = nowMs;
    const { maxConnections } = this.#server;
    this.#log.warn({ maxConnections }, 'connections not accepted: too few descriptors left');
  }
}
