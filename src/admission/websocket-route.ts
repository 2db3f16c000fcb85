import type { Socket } from 'node:net';
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import {
  type Authenticator,
  bearerOf,
  type Credentials,
  requireActive,
} from '../accounts/authenticator.ts';
import type { ConnectionBudget } from '../accounts/connection-budget.ts';
import { logFault } from '../protocol/log-fault.ts';
import { adoptSocket } from '../handover/adopt-socket.ts';
import { prefixOf } from '../network-of.ts';
import { notFound, PartylineError } from '../protocol/errors.ts';
import { errorMessage } from '../protocol/messages.ts';
import { closeUnread } from '../session/close-unread.ts';
import type { HandedOverClient } from './handed-over-client.ts';
import { type NewClient, openSession, takeOverSession } from './open-session.ts';
import type { SessionOpeningParts } from './session-opening.ts';
import { type Query, readQuery } from './query.ts';
import { readResumed } from './resumption.ts';

const PATH = '/ws';
/** Header in which a load balancer names the status after which it tries another node. */
const RETRY_HEADER = 'x-retry-on';

/** Listener for requests of authenticated clients, and for refusals of others. */
type Visitors = {
  known(request: FastifyRequest, accountId: number): void;
  refused(address: string, reason: string): void;
};

export type WebSocketRouteParts = SessionOpeningParts & {
  authenticator: Authenticator;
  visitors: Visitors;
};

/**
 * `GET /ws`: accepts every well-formed upgrade and reports faults after it, because a browser cannot read a refused upgrade.
 * @returns a function that takes over a client from another process
 */
export function registerWebSocketRoute(
  app: FastifyInstance,
  parts: WebSocketRouteParts,
): (client: HandedOverClient, connection: Socket) => void {
  const open = (
    socket: WebSocket,
    stream: Socket,
    log: FastifyBaseLogger,
    letIn: () => Promise<void>,
    onRefused: (error: PartylineError) => void,
  ) => {
    // Nothing is read until a session exists.
    socket.pause();
    // ws closes the socket itself after an error, and then emits 'close'.
    socket.on('error', (fault) => log.debug({ err: fault }, 'socket error'));
    letIn()
      .catch((fault: unknown) => {
        const error = logFault(log, fault, 'connection failed');
        parts.metrics.refused(error.code);
        if (error.code !== 'internal_error') onRefused(error);
        refuse(socket, stream, error);
      })
      .finally(() => socket.resume());
  };
  // The plugin accepts upgrades at any address.
  app.addHook('onRequest', (request, _reply, done) => {
    done(request.ws && request.routeOptions.url !== PATH ? notFound() : undefined);
  });
  app.route({
    method: 'GET',
    url: PATH,
    schema: { hide: true },
    // A load balancer that asks for it sends the client to another node, which it cannot do after
    // an upgrade.
    onRequest: (request, _reply, done) => {
      if (request.headers[RETRY_HEADER] === '503') parts.drain.check();
      done();
    },
    handler: () => {
      throw new PartylineError('upgrade_required', 'This is a WebSocket endpoint.');
    },
    wsHandler: (socket, request) => {
      const letIn = async () => openSession({ ...(await identify(request, parts)), socket }, parts);
      open(socket, request.raw.socket, request.log, letIn, ({ code }) =>
        parts.visitors.refused(request.ip, code),
      );
    },
  });
  return (moving, stream) => {
    const { query, credentials } = moving;
    adoptSocket(app.websocketServer, stream, moving.unread.bytes, (socket) => {
      const client = { socket, stream, query, credentials, log: app.log };
      const letIn = () => takeOverSession(client, moving, parts);
      open(socket, stream, app.log, letIn, ({ code, message }) =>
        app.log.info({ code, reason: message }, 'connection refused'),
      );
    });
  };
}

/**
 * Authenticates the client that connects.
 * @throws {PartylineError} any reason to refuse the client
 */
async function identify(
  request: FastifyRequest,
  {
    drain,
    checkLoad,
    accountWatch,
    authenticator,
    connections,
    requestLimits,
    sealer,
    visitors,
  }: WebSocketRouteParts,
): Promise<Omit<NewClient, 'socket'>> {
  drain.check();
  checkLoad();
  const changesBefore = accountWatch.changes();
  const query = readQuery(request.url);
  const credentials = await authenticate(query, request, authenticator, connections);
  // Redis answers all clients that connect at once in the same turn of the event loop.
  return requestLimits.turns.run(credentials.account.id, () => {
    visitors.known(request, credentials.account.id);
    requireActive(credentials);
    checkGrant(credentials, query);
    const resumedId = readResumed(query, credentials.account.id, sealer);
    const { room, peer, audio, stats } = query;
    return {
      stream: request.raw.socket,
      query: { peer, audio, stats },
      credentials,
      log: request.log,
      room,
      network: prefixOf(request.ip),
      resumedId,
      changesBefore,
    };
  });
}

/**
 * Authenticates a client by a token or an API key in the query, or by a key in the `Authorization` header.
 * The connection is charged to its account.
 * @throws {PartylineError} `unauthorized`, `rate_limited`, `overloaded`
 */
async function authenticate(
  { apiKey, token }: Query,
  { headers, ip }: FastifyRequest,
  authenticator: Authenticator,
  connections: ConnectionBudget,
): Promise<Credentials> {
  const nowMs = performance.now();
  if (token) {
    const checkOwner = (accountId: number) => connections.checkAccount(accountId, nowMs);
    const credentials = await authenticator.byToken(token, ip, checkOwner);
    connections.spend(credentials, undefined, nowMs);
    return credentials;
  }
  const key = apiKey || bearerOf(headers.authorization);
  if (!key) throw new PartylineError('unauthorized', '"api_key" is missing.');
  connections.checkKey(key, nowMs);
  const credentials = await authenticator.byKey(key, ip);
  connections.spend(credentials, key, nowMs);
  return credentials;
}

/** @throws {PartylineError} `forbidden` if the token is for another peer; whether it grants the room is told as to `join` */
function checkGrant({ grant }: Credentials, { peer }: Query): void {
  if (grant && grant.peer !== peer) {
    throw new PartylineError('forbidden', 'The token is for another peer.');
  }
}

/** Closes the socket with the error's message and close code. */
function refuse(socket: WebSocket, stream: Socket, error: PartylineError): void {
  socket.send(JSON.stringify(errorMessage(error)));
  closeUnread(socket, stream, error.kind.closeCode, error.code);
}
