import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import {
  type Authenticator,
  bearerOf,
  checkRoomGrant,
  type Credentials,
  grantsRoom,
  needActive,
} from '../accounts/authenticator.ts';
import { PLANS } from '../accounts/plans.ts';
import type { Codecs } from '../audio/codecs.ts';
import type { Seal } from '../cluster/seal.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { LoadMonitor } from '../load/load-monitor.ts';
import { errorMessage, type PeerKind } from '../protocol/messages.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import type { CcuLeases, LastPlace } from '../usage/ccu-leases.ts';
import type { Quota } from '../usage/quota.ts';
import { readSummary } from '../usage/summary.ts';
import type { UsageStore } from '../usage/usage-store.ts';
import type { AccountWatch } from './account-watch.ts';
import type { Arrivals } from './arrivals.ts';
import type { Drain } from './drain.ts';
import type { KeptPlace, KeptPlaces } from './kept-places.ts';
import { LOBBY } from './names.ts';
import { preferencesOf, type Query, readQuery } from './query.ts';
import { readResumed, sealResumption } from './resumption.ts';
import { Session } from './session.ts';
import type { Sessions } from './sessions.ts';

/** What is counted of sessions. */
type SessionMetrics = {
  admitted(): void;
  refused(reason: string): void;
  ended(reason: string): void;
};

export type WebSocketRouteParts = {
  authenticator: Authenticator;
  leases: CcuLeases;
  arrivals: Arrivals;
  places: KeptPlaces;
  seal: Seal;
  usage: UsageStore;
  quota: Quota;
  rooms: RoomRegistry;
  sessions: Sessions;
  drain: Drain;
  load: LoadMonitor;
  accountWatch: AccountWatch;
  metrics: SessionMetrics;
  codecs: Codecs;
};

/** `GET /ws`: accepts every well-formed upgrade, because a browser cannot read a refused one, and says what is wrong then. */
export function registerWebSocketRoute(app: FastifyInstance, parts: WebSocketRouteParts): void {
  app.route({
    method: 'GET',
    url: '/ws',
    schema: { hide: true },
    handler: () => {
      throw new PartylineError('upgrade_required', 'This is a WebSocket endpoint.');
    },
    wsHandler: (socket, request) => {
      // Nothing is read before there is a session to take it.
      socket.pause();
      // ws closes the socket itself after an error, and tells that by 'close'.
      socket.on('error', (fault) => request.log.debug({ err: fault }, 'socket error'));
      openSession(socket, request, parts)
        .catch((fault: unknown) => {
          parts.metrics.refused(PartylineError.from(fault).code);
          refuse(socket, request, fault);
        })
        .finally(() => socket.resume());
    },
  });
}

/**
 * @throws {PartylineError} whatever keeps the client out; nothing is left behind then
 */
async function openSession(
  socket: WebSocket,
  request: FastifyRequest,
  parts: WebSocketRouteParts,
): Promise<void> {
  const { leases, sessions, places, arrivals, quota, drain, load, metrics, accountWatch, seal } =
    parts;
  drain.check();
  load.check();
  const changesBefore = accountWatch.changes();
  const query = readQuery(request.url);
  const credentials = await authenticate(query, request, parts.authenticator);
  needActive(credentials);
  checkGrant(credentials, query);
  const { account } = credentials;
  const { peer } = query;
  const resumedId = readResumed(query, account.id, seal);
  const id = resumedId ?? randomUUID();
  const connectionId = randomUUID();
  const log = request.log.child({ account: account.id, peer, session: id });
  // Before a lease is asked for: who replaces himself needs no second one.
  sessions.replace(account.id, peer);
  const holder = { accountId: account.id, peer, connectionId };
  const lastPlace = await leases.admit(holder, PLANS[account.plan].maxCcu);
  const release = () => {
    leases.release(holder).catch((fault: unknown) => {
      log.warn({ err: fault }, 'lease not given back; it runs out by itself');
    });
  };
  try {
    const [{ total_minutes: _used, ...limits }] = await Promise.all([
      readSummary(parts.usage, leases, account),
      arrivals.arrived(account.id, peer, connectionId),
    ]);
    if (socket.readyState !== socket.OPEN) {
      release();
      return;
    }
    const isElsewhere = lastPlace !== undefined && !places.get(account.id, peer);
    const onFault = (fault: unknown) => {
      log.warn({ err: fault }, 'other nodes do not know where the peer is');
    };
    const session: Session = new Session(socket, {
      stream: request.raw.socket,
      id,
      connectionId,
      resumeToken: sealResumption(seal, account.id, peer, id),
      credentials,
      peer,
      audio: preferencesOf(query.audio, account),
      checkJoin: async ({ id: accountId, plan }, isNew) => {
        // Who is in a room already goes on, wherever he goes.
        if (isNew) load.check();
        await quota.check(accountId, plan, Date.now());
      },
      wantsStats: query.stats,
      limits,
      rooms: parts.rooms,
      places,
      codecs: parts.codecs,
      log,
      onPlace: (room, kind) => {
        const place = room === undefined ? undefined : { sessionId: id, room, kind };
        leases.place(holder, place).catch(onFault);
      },
      onSettled: (room) => {
        if (isElsewhere) arrivals.settled(account.id, peer, connectionId, room).catch(onFault);
      },
      onClosed: (reason, kept) => {
        metrics.ended(reason);
        sessions.delete(session);
        if (kept)
          places.keep({ accountId: account.id, sessionId: id, ...kept, log, reason, release });
        else release();
      },
    });
    sessions.add(session);
    metrics.admitted();
    const place = placeToResume(resumedId, lastPlace, places.get(account.id, peer));
    session.start(query.room, place && mayBeIn(credentials, place.room) ? place : undefined);
    // What was changed while the client was being let in has passed it by.
    if (accountWatch.changes() !== changesBefore) accountWatch.check(account.id);
  } catch (fault) {
    release();
    throw fault;
  }
}

/** A token with which a client comes back may grant less than the one with which it came. */
const mayBeIn = ({ grant }: Credentials, room: string): boolean =>
  !grant || grantsRoom(grant, room);

/** Where a session was that its client resumes, on this node or another; undefined if nowhere any more. */
function placeToResume(
  sessionId: string | undefined,
  last: LastPlace | undefined,
  kept: KeptPlace | undefined,
): { room: string; isHere: boolean; kind: PeerKind } | undefined {
  if (sessionId === undefined) return undefined;
  if (kept?.place.sessionId === sessionId) {
    return { room: kept.place.room, isHere: true, kind: kept.place.peer.kind };
  }
  return last?.sessionId === sessionId ? { ...last, isHere: false } : undefined;
}

/**
 * Who connects: by a token or an API key in the query, or by a key in the header, where a client can set one.
 * @throws {PartylineError} `unauthorized`, `rate_limited`, `overloaded`
 */
async function authenticate(
  { apiKey, token }: Query,
  { headers, ip }: FastifyRequest,
  authenticator: Authenticator,
): Promise<Credentials> {
  if (token) return authenticator.byToken(token, ip);
  const key = apiKey || bearerOf(headers.authorization);
  if (!key) throw new PartylineError('unauthorized', '"api_key" is missing.');
  return authenticator.byKey(key, ip);
}

/** @throws {PartylineError} `forbidden` if the token is for another peer, or does not grant the room */
function checkGrant({ grant }: Credentials, { peer, room }: Query): void {
  if (!grant) return;
  if (grant.peer !== peer) {
    throw new PartylineError('forbidden', 'The token is for another peer.');
  }
  if (room !== LOBBY) checkRoomGrant(grant, room);
}

/** Says why, in words and by the close code. */
function refuse(socket: WebSocket, request: FastifyRequest, fault: unknown): void {
  const error = PartylineError.from(fault);
  if (error.code === 'internal_error') request.log.error({ err: fault }, 'connection failed');
  else request.log.info({ code: error.code, reason: error.message }, 'connection refused');
  socket.send(JSON.stringify(errorMessage(error)));
  socket.close(error.kind.closeCode, error.code);
}
