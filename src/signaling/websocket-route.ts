import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import type { Account } from '../accounts/accounts.ts';
import {
  type Authenticator,
  bearerOf,
  checkRoomGrant,
  type Credentials,
  needActive,
} from '../accounts/authenticator.ts';
import { PLANS } from '../accounts/plans.ts';
import { parseAudioFormat, parseDeclaredFormat } from '../audio/format.ts';
import type { Codecs } from '../audio/codecs.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { LoadMonitor } from '../load/load-monitor.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import type { CcuLeases } from '../usage/ccu-leases.ts';
import { readSummary } from '../usage/summary.ts';
import type { Redis } from '../store/redis.ts';
import type { Quota } from '../usage/quota.ts';
import type { UsageStore } from '../usage/usage-store.ts';
import { errorMessage } from '../protocol/messages.ts';
import { type AudioPreferences, parseAudioOut } from './client-audio.ts';
import type { AccountWatch } from './account-watch.ts';
import type { Drain } from './drain.ts';
import { checkName, LOBBY } from './names.ts';
import { announceArrival } from './replacements.ts';
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
  redis: Redis;
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

/** What the client said of itself in the query of `/ws`. */
type Query = {
  room: string;
  peer: string;
  /** An API key, or a token, or neither: then it is in the `Authorization` header. */
  apiKey: string | undefined;
  token: string | undefined;
  audio: QueriedAudio;
  stats: boolean;
};
type QueriedAudio = Pick<AudioPreferences, 'in' | 'out' | 'delivery'>;

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
  const { leases, sessions, quota, drain, load, metrics, accountWatch } = parts;
  drain.check();
  load.check();
  const changesBefore = accountWatch.changes();
  const query = readQuery(request);
  const credentials = await authenticate(query, request, parts.authenticator);
  needActive(credentials);
  checkGrant(credentials, query);
  const { account } = credentials;
  const id = randomUUID();
  const log = request.log.child({ account: account.id, peer: query.peer, session: id });
  // Before a lease is asked for: who replaces himself needs no second one.
  sessions.replace(account.id, query.peer);
  const holder = { accountId: account.id, peer: query.peer, sessionId: id };
  await leases.admit(holder, PLANS[account.plan].maxCcu);
  const release = () => {
    leases.release(holder).catch((fault: unknown) => {
      log.warn({ err: fault }, 'lease not given back; it runs out by itself');
    });
  };
  try {
    await announceArrival(parts.redis, holder);
    const { total_minutes: _used, ...limits } = await readSummary(parts.usage, leases, account);
    if (socket.readyState !== socket.OPEN) {
      release();
      return;
    }
    const session: Session = new Session(socket, {
      id,
      credentials,
      peer: query.peer,
      audio: preferencesOf(query.audio, account),
      checkJoin: async ({ id: accountId, plan }, isNew) => {
        // Who is in a room already goes on, wherever he goes.
        if (isNew) load.check();
        await quota.check(accountId, plan, Date.now());
      },
      wantsStats: query.stats,
      limits,
      rooms: parts.rooms,
      codecs: parts.codecs,
      log,
      onClosed: (reason) => {
        metrics.ended(reason);
        sessions.delete(session);
        release();
      },
    });
    sessions.add(session);
    metrics.admitted();
    session.start(query.room);
    // What was changed while the client was being let in has passed it by.
    if (accountWatch.changes() !== changesBefore) accountWatch.check(account.id);
  } catch (fault) {
    release();
    throw fault;
  }
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

/** @throws {PartylineError} `bad_request`, `unauthorized` without a key, `unsupported_audio` */
function readQuery(request: FastifyRequest): Query {
  const parameters = new URL(request.url, 'http://localhost').searchParams;
  const read = (name: string): string | undefined => {
    const values = parameters.getAll(name);
    if (values.length < 2) return values[0];
    throw new PartylineError('bad_request', `"${name}" is given more than once.`);
  };
  const need = (name: string): string => {
    const value = read(name);
    if (value === undefined) throw new PartylineError('bad_request', `"${name}" is missing.`);
    return value;
  };
  const room = need('room');
  if (room !== LOBBY) checkName(room, 'room', 'bad_request');
  const peer = checkName(need('peer'), 'peer', 'bad_request');
  const audio = readAudio(read('audio'), read('audio_out'), read('delivery'));
  const [apiKey, token] = [read('api_key'), read('token')];
  return { room, peer, apiKey, token, audio, stats: read('stats') === 'true' };
}

function readAudio(
  audio = 'auto',
  audioOut: string | undefined = 'auto',
  delivery = 'mix',
): QueriedAudio {
  if (delivery !== 'mix' && delivery !== 'forward') {
    throw new PartylineError('bad_request', '"delivery" is "mix" or "forward".');
  }
  return { in: parseDeclaredFormat(audio), out: parseAudioOut(audioOut), delivery };
}

/** What the client did not say, the operator may have. */
function preferencesOf(audio: QueriedAudio, account: Account): AudioPreferences {
  const { default_audio: defaultAudio = 'opus', pinned_audio: pinnedAudio } = account;
  const isPinned = audio.in === 'auto' && pinnedAudio !== undefined;
  return {
    ...audio,
    in: isPinned ? parseDeclaredFormat(pinnedAudio) : audio.in,
    unknownOut: parseAudioFormat(defaultAudio),
  };
}
