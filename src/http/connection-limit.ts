import type { Server, Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { counters } from '../counters.ts';
import type { UnauthenticatedConnections } from './unauthenticated-connections.ts';

/** Minimum interval between two log lines about connections that were closed, ms. */
const LOG_EVERY_MS = 60_000;
/**
 * Connections accepted beyond the limit, from the reserve. While at most this many are unauthenticated, none is ended for them, so that
 * several health checks and scrapes are served at once.
 */
const EXTRA_CONNECTIONS = 8;

/**
 * Limits the connections of a server to the number of free descriptors. For a connection beyond the limit, the one is ended that has been
 * idle and unauthenticated for longest. So a health check, which takes milliseconds, is answered while others hold connections open.
 */
export class ConnectionLimit {
  readonly #server: Server;
  readonly #unauthenticated: UnauthenticatedConnections;
  readonly #log: FastifyBaseLogger;
  #limit = Infinity;
  #loggedAtMs = -Infinity;

  /** @param unauthenticated connections of the server whose clients are not known yet */
  constructor(server: Server, unauthenticated: UnauthenticatedConnections, log: FastifyBaseLogger) {
    this.#server = server;
    this.#unauthenticated = unauthenticated;
    this.#log = log;
    server.on('connection', (arrived: Socket) => this.#makeRoom(arrived));
    server.on('drop', () => this.#dropped());
  }

  /** Sets the number of further connections that may be accepted from now on; negative if there are too many. */
  allow(more: number): void {
    this.#server.getConnections((fault, count) => {
      if (fault) return;
      this.#limit = count + more;
      // Accepts at least one connection beyond the present ones, even if rooms have used most of
      // the reserve, and one more, for which an idle one is ended.
      this.#server.maxConnections = Math.max(this.#limit + EXTRA_CONNECTIONS, count + 1) + 1;
    });
  }

  /** Ends another connection for one that has arrived, if there are more than the limit. */
  #makeRoom(arrived: Socket): void {
    this.#server.getConnections((fault, count) => {
      // The connection may have been refused meanwhile because of its address.
      if (fault || arrived.destroyed || count <= this.#limit) return;
      const { size } = this.#unauthenticated;
      const isFull = count >= this.#server.maxConnections;
      // The number includes the connection that has arrived.
      if (size <= (isFull ? 1 : EXTRA_CONNECTIONS)) return;
      this.#unauthenticated.endOldest();
      this.#dropped();
    });
  }

  #dropped(): void {
    counters.connectionsNotAccepted += 1;
    const nowMs = performance.now();
    if (nowMs - this.#loggedAtMs < LOG_EVERY_MS) return;
    this.#loggedAtMs = nowMs;
    const maxConnections = this.#limit;
    this.#log.warn({ maxConnections }, 'connections closed: too few descriptors left');
  }
}
