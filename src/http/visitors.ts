import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { PartylineError } from '../protocol/errors.ts';
import { RefusalLog } from './refusal-log.ts';
import { RequestLog, type Sender } from './request-log.ts';
import type { UnauthenticatedConnections } from './unauthenticated-connections.ts';

/** Delay until the next attempt that an address with too many connections is told, ms. */
const RETRY_AFTER_MS = 5000;
/** Routes that machines poll every few seconds: their requests are not logged. */
const QUIET = new Set(['/healthz', '/readyz', '/metrics']);

/** Distinguishes authenticated clients from others, for connection limits and log lines. */
export class Visitors {
  readonly #unauthenticated: UnauthenticatedConnections;
  readonly #refusals: RefusalLog;
  readonly #requests: RequestLog;
  readonly #senders = new WeakMap<FastifyRequest, Sender>();

  /**
   * @param isProxied true if connections come from a proxy that reports the addresses of its clients
   * @param unauthenticated gets each connection, until its client is known
   */
  constructor(
    server: FastifyInstance,
    {
      isProxied,
      unauthenticated,
    }: { isProxied: boolean; unauthenticated: UnauthenticatedConnections },
    summaryEveryMs: number,
  ) {
    this.#unauthenticated = unauthenticated;
    this.#refusals = new RefusalLog(server.log, summaryEveryMs);
    this.#requests = new RequestLog(server.log, summaryEveryMs);
    if (isProxied) this.#countRequests(server);
    else this.#countConnections(server);
    server.addHook('onResponse', (request, { statusCode, elapsedTime }, done) => {
      this.#note(request, statusCode, elapsedTime);
      done();
    });
  }

  /** Notes that a request has been authenticated: until its answer, its connection is not counted. */
  known(request: FastifyRequest, sender: Sender): void {
    this.#senders.set(request, sender);
    this.#unauthenticated.forget(request.raw.socket);
    this.#requests.begin(request, sender);
  }

  /** Notes a refusal, for the log. @param reason code of the error, or HTTP status */
  refused(address: string, reason: string): void {
    this.#refusals.add(address, reason);
  }

  close(): void {
    this.#refusals.close();
    this.#requests.close();
  }

  /** Counts each connection, again when an authenticated request is answered; an upgraded one is not counted again. */
  #countConnections(server: FastifyInstance): void {
    server.server.on('connection', (connection: Socket) => {
      const { remoteAddress = '' } = connection;
      if (this.#unauthenticated.arrive(connection, remoteAddress)) return;
      this.refused(remoteAddress, 'too many connections');
      connection.destroy();
    });
    server.addHook('onRequest', (request, _reply, done) => {
      this.#unauthenticated.touch(request.raw.socket);
      done();
    });
    server.addHook('onSend', (request, reply, _payload, done) => {
      const { socket } = request.raw;
      const { remoteAddress = '' } = socket;
      const isCounted =
        request.ws || socket.destroyed || this.#unauthenticated.arrive(socket, remoteAddress);
      if (!isCounted) reply.header('connection', 'close');
      // The answer may take minutes.
      if (this.#senders.has(request)) this.#unauthenticated.hold(socket);
      done();
    });
    server.addHook('onResponse', (request, _reply, done) => {
      const isKnown = !request.ws && this.#senders.has(request);
      if (isKnown) this.#unauthenticated.release(request.raw.socket);
      done();
    });
  }

  /** Counts a connection through a proxy only from the head of a request to its answer. */
  #countRequests(server: FastifyInstance): void {
    server.server.on('connection', (connection: Socket) =>
      this.#unauthenticated.keepUncounted(connection),
    );
    server.addHook('onRequest', (request, _reply, done) => {
      const isAllowed = this.#unauthenticated.arrive(request.raw.socket, request.ip);
      done(isAllowed ? undefined : tooManyConnections());
    });
    server.addHook('onResponse', (request, _reply, done) => {
      if (!request.ws) this.#unauthenticated.keepUncounted(request.raw.socket);
      done();
    });
  }

  #note(request: FastifyRequest, status: number, elapsedMs: number): void {
    if (QUIET.has(request.routeOptions.url ?? '')) return;
    const sender = this.#senders.get(request);
    if (sender !== undefined) this.#requests.end(request, sender, status, elapsedMs);
    else if (status >= 400) this.refused(request.ip, String(status));
  }
}

const tooManyConnections = () =>
  new PartylineError('rate_limited', 'Too many connections of this address.', {
    retryAfterMs: RETRY_AFTER_MS,
  });
