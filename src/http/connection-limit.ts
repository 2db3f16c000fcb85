import type { Server, Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { counters } from '../counters.ts';
import type { UnauthenticatedConnections } from './unauthenticated-connections.ts';

/** Interval at which the log says that connections are not accepted, ms. */
const LOG_EVERY_MS = 60_000;
/**
 * Maximum number of connections beyond the limit, which take descriptors of the reserve. They end no others while at most as many
 * have not authenticated, so that several health checks and scrapes can be under way.
 */
const EXTRA_CONNECTIONS = 8;

/**
 * Limits the connections of a server to the number of free descriptors. A connection beyond the limit ends the one that has been
 * idle and unauthenticated for longest: a health check, which takes milliseconds, is answered while others hold connections open.
 */
export class ConnectionLimit {
  readonly #server: Server;
  readonly #unauthenticated: UnauthenticatedConnections;
  readonly #log: FastifyBaseLogger;
  #limit = Infinity;
  #loggedAtMs = -Infinity;

  /** @param unauthenticated has each connection of the server until its client is known */
  constructor(server: Server, unauthenticated: UnauthenticatedConnections, log: FastifyBaseLogger) {
    this.#server = server;
    this.#unauthenticated = unauthenticated;
    this.#log = log;
    server.on('connection', (arrived: Socket) => this.#makeRoom(arrived));
    server.on('drop', () => this.#dropped());
  }

  /** Sets how many more connections may be accepted from now on; a negative number if there are too many. */
  allow(more: number): void {
    this.#server.getConnections((fault, count) => {
      if (fault) return;
      this.#limit = count + more;
      // One is let in even if rooms have taken most of the reserve, and one more, in whose place
      // another is ended.
      this.#server.maxConnections = Math.max(this.#limit + EXTRA_CONNECTIONS, count + 1) + 1;
    });
  }

  /** Ends a connection in place of the one that has come, if the limit is exceeded. */
  #makeRoom(arrived: Socket): void {
    this.#server.getConnections((fault, count) => {
      // It may have been refused for its address meanwhile.
      if (fault || arrived.destroyed || count <= this.#limit) return;
      const { size } = this.#unauthenticated;
      const isFull = count >= this.#server.maxConnections;
      // The connection that has come is one of them.
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
    this.#log.warn({ maxConnections }, 'connections not accepted: too few descriptors left');
  }
}
