import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import type { WebSocket } from 'ws';
import type { Timings } from '../../config/timings.ts';
import type { Credentials } from '../accounts/authenticator.ts';
import type { ConnectionBudget } from '../accounts/connection-budget.ts';
import type { Codecs } from '../audio/codecs.ts';
import type { Sealer } from '../cluster/sealer.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import type { CcuLeases } from '../usage/ccu-leases.ts';
import { type LastLocation, WHIP_PREFIX } from '../usage/last-location.ts';
import type { Quota } from '../usage/quota.ts';
import { readSummary } from '../usage/summary.ts';
import type { RecentUsage } from '../usage/recent-usage.ts';
import type { RedisClock } from '../store/redis-clock.ts';
import type { AccountWatch } from './account-watch.ts';
import type { PeerTakeover } from './peer-takeover.ts';
import { type AudioSettings, parseSettings, serializeSettings } from '../session/audio-settings.ts';
import type { Drain } from './drain.ts';
import type { SuspendedPeers } from '../session/suspended-peers.ts';
import { LatestWrite } from './latest-write.ts';
import { type HandedOverClient, type HandoverTargets, openHandover } from './handed-over-client.ts';
import { preferencesOf, type SessionQuery } from './query.ts';
import type { RequestLimits } from '../session/request-limits.ts';
import { locationToResume, restrict } from './resume-place.ts';
import { sealResumption } from './resumption.ts';
import { Session } from '../session/session.ts';
import type { Sessions } from './sessions.ts';
import { type Ids, type Lease, takeLease } from './take-lease.ts';

/** Counters of sessions. */
type SessionMetrics = {
  admitted(): void;
  refused(reason: string): void;
  ended(reason: string): void;
};

export type SessionOpeningParts = {
  leases: CcuLeases;
  takeover: PeerTakeover;
  places: SuspendedPeers;
  sealer: Sealer;
  usage: RecentUsage;
  clock: RedisClock;
  quota: Quota;
  rooms: RoomRegistry;
  sessions: Sessions;
  /** @throws {PartylineError} `overloaded` while this node admits no new clients */
  checkLoad: () => void;
  drain: Drain;
  accountWatch: AccountWatch;
  metrics: SessionMetrics;
  requestLimits: RequestLimits;
  /** Limit of the connections that each account opens. */
  connections: ConnectionBudget;
  codecs: Codecs;
  timings: Timings['sessions'];
  /** Undefined where this process is the only one. */
  homes: HandoverTargets | undefined;
};

/** An authenticated client on a WebSocket from which nothing has been read yet. */
export type KnownClient = {
  socket: WebSocket;
  stream: Socket;
  query: SessionQuery;
  credentials: Credentials;
  log: FastifyBaseLogger;
};

/** A client that has just connected. */
export type NewClient = KnownClient & {
  /** Room in which it asks to be. */
  room: string;
  /** Network of its address (`networkOf`). */
  network: string;
  /** The session that it resumes. */
  resumedId: string | undefined;
  /** Number of account changes received when its credentials were looked up. */
  changesBefore: number;
};

/**
 * Gives a client a session, and with it a place among the account's connections.
 * @throws {PartylineError} any reason to refuse the client; everything acquired is released before
 */
export async function openSession(client: NewClient, parts: SessionOpeningParts): Promise<void> {
  const { takeover, leases } = parts;
  const { account } = client.credentials;
  const ids = { sessionId: client.resumedId ?? randomUUID(), connectionId: randomUUID() };
  // A peer that replaces itself takes over its own lease: its release by the old connection has no effect.
  const lease = await takeLease(client, ids, leases, false);
  try {
    const [{ total_minutes: _used, ...limits }] = await Promise.all([
      readSummary(parts.usage, leases, account, parts.clock.wallMs()),
      takeover.arrived(lease.holder, lease.order, client.credentials.grant),
    ]);
    // Redis answers all clients that connect at once in the same turn of the event loop.
    await parts.requestLimits.turns.run(account.id, () => start(client, ids, lease, limits, parts));
  } catch (fault) {
    lease.withdraw();
    throw fault;
  }
}

/** Creates and starts the session of a client that has its lease. @throws {PartylineError} if its peer has a newer connection, or this node drains */
function start(
  client: NewClient,
  ids: Ids,
  lease: Lease,
  limits: Parameters<Session['start']>[0],
  parts: SessionOpeningParts,
): void {
  const { sessions, places, takeover, accountWatch } = parts;
  const { socket, query, credentials, resumedId } = client;
  const { account } = credentials;
  const { peer } = query;
  if (socket.readyState !== socket.OPEN) {
    lease.withdraw();
    return;
  }
  takeover.checkNewest(lease.holder, lease.order);
  // The clients that are here have been told already.
  parts.drain.check();
  const live = sessions.get(account.id, peer);
  const before = live && { sessionId: live.id, settings: live.settings };
  sessions.replace(account.id, peer);
  const settings = settingsOf(ids, lease, before ?? places.get(account.id, peer)?.place);
  const { session, receive } = addSession(client, ids, { ...lease, settings }, parts, true);
  const isSilenced = restrict(places.get(account.id, peer), credentials, limits.remaining_minutes);
  const place = locationToResume(resumedId, lease.lastLocation, places.get(account.id, peer));
  const room = session.start(limits, client, lease.isResumed || place ? { place } : undefined);
  if (room !== undefined) receive(Buffer.from(JSON.stringify({ type: 'join', room })), false);
  if (isSilenced) session.refuseToPublish();
  // Changes made during the admission have not reached the session.
  if (accountWatch.changes() !== client.changesBefore) accountWatch.check(account.id);
}

/**
 * Continues with a client that another process has handed over.
 * @throws {PartylineError} any reason to refuse the client; everything acquired is released before
 */
export async function takeOverSession(
  client: KnownClient,
  { sessionId, connectionId, unread }: HandedOverClient,
  parts: SessionOpeningParts,
): Promise<void> {
  const ids = { sessionId, connectionId };
  const lease = await takeLease(client, ids, parts.leases, true);
  try {
    parts.drain.check();
    if (client.socket.readyState !== client.socket.OPEN) {
      lease.withdraw();
      return;
    }
    const settings = settingsOf(ids, lease, undefined);
    const { session, receive } = addSession(client, ids, { ...lease, settings }, parts, false);
    session.log.info('session taken over');
    for (const { data, isBinary } of unread.messages) receive(data, isBinary);
    // Changes made during the handover have not reached the session.
    parts.accountWatch.check(client.credentials.account.id);
  } catch (fault) {
    lease.withdraw();
    throw fault;
  }
}

/**
 * Returns the settings with which a session continues; undefined if those of the client's query apply.
 * @param here settings of the peer's session in this process: complete, where Redis stores only a part
 */
function settingsOf(
  { sessionId }: Ids,
  { isResumed, settings }: Lease,
  here: { sessionId: string; settings: AudioSettings } | undefined,
): AudioSettings | undefined {
  if (here?.sessionId === sessionId) return here.settings;
  return isResumed ? parseSettings(settings) : undefined;
}

/** Returns false if the place that a peer had before its admission has ended by now without having been taken up. */
function mayStillBeKept(
  { sessionId }: LastLocation,
  admittedAtMs: number,
  { places, timings }: SessionOpeningParts,
): boolean {
  // A session of WHIP that is replaced keeps no place.
  if (sessionId.startsWith(WHIP_PREFIX)) return false;
  // The connection before may live for a moment after it was replaced.
  return performance.now() - admittedAtMs < timings.movesWithinMs + places.keepMs;
}

/**
 * Makes the session of a client.
 * @param mayMove true if the client may be handed over to the process of its room
 * @returns the session, and a function that injects messages as if the client had sent them
 */
function addSession(
  client: KnownClient,
  { sessionId: id, connectionId }: Ids,
  {
    holder,
    admittedAtMs,
    lastLocation,
    order,
    release,
    settings,
  }: Omit<Lease, 'settings'> & { settings: AudioSettings | undefined },
  parts: SessionOpeningParts,
  mayMove: boolean,
): { session: Session; receive: Session['receive'] } {
  const { leases, sessions, places, takeover, quota, checkLoad, metrics, sealer } = parts;
  const { socket, stream, query, credentials } = client;
  const { account } = credentials;
  const { peer } = query;
  const log = client.log.child({ account: account.id, peer, session: id });
  const isElsewhere = lastLocation !== undefined && !places.get(account.id, peer);
  let elsewhere = isElsewhere ? lastLocation : undefined;
  const onFault = (fault: unknown) => {
    log.warn({ err: fault }, 'location of the peer not shared');
  };
  const saving = new LatestWrite(
    (text) => leases.save(holder, { sessionId: id, settings: text }),
    (fault) => log.warn({ err: fault }, 'client settings not saved'),
  );
  const saveSettings = (changed: AudioSettings) => saving.write(serializeSettings(changed));
  const session: Session = new Session(socket, {
    stream,
    id,
    connectionId,
    order,
    resumeToken: sealResumption(sealer, account.id, peer, id),
    credentials,
    peer,
    audio: preferencesOf(query.audio, account),
    settings,
    checkJoin: async ({ id: accountId, plan }, isNew) => {
      // A client that is in a room already may change rooms under load.
      if (isNew) checkLoad();
      await quota.check(accountId, plan);
    },
    wantsStats: query.stats,
    requestLimits: parts.requestLimits,
    rooms: parts.rooms,
    places,
    codecs: parts.codecs,
    timings: parts.timings,
    log,
    onPlace: (room, kind) => {
      const place = room === undefined ? undefined : { sessionId: id, room, kind };
      leases.place(holder, place).catch(onFault);
    },
    onSettled: (room) => {
      if (isElsewhere) takeover.settled(holder, order, room).catch(onFault);
      elsewhere = undefined;
    },
    giveUpElsewhere: (reason) => {
      const given = elsewhere;
      if (given) takeover.left(holder, order, reason).catch(onFault);
      elsewhere = undefined;
      if (!given || mayStillBeKept(given, admittedAtMs, parts)) return given;
      // Redis still has it, because its lease was taken over.
      leases.place(holder).catch(onFault);
      return undefined;
    },
    onSettings: saveSettings,
    onClosed: (reason, { mayComeBack, place, settings: last }) => {
      handover?.close();
      metrics.ended(reason);
      parts.connections.ended(account, reason, performance.now());
      sessions.delete(session);
      const { keyId, signedBy } = credentials;
      const owner = { account: session.account, keyId, signedBy, sessionId: id };
      const kept = { settings: last, saveSettings, log, reason, release };
      if (place) places.keep({ ...owner, ...place, ...kept });
      else release(mayComeBack ? places.keepMs : 0);
    },
  });
  const onMoved = () => {
    metrics.ended('moved');
    sessions.delete(session);
    leases.handOver(holder);
  };
  const known = { sessionId: id, connectionId, query, credentials };
  const handover = mayMove
    ? openHandover(parts, session, socket, stream, known, onMoved)
    : undefined;
  if (!handover) {
    session.listen();
    session.read();
  }
  sessions.add(session);
  metrics.admitted();
  const receiver = handover ?? session;
  return { session, receive: (data, isBinary) => receiver.receive(data, isBinary) };
}
