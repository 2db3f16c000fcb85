import type { FastifyBaseLogger } from 'fastify';
import { codecsOfAccount } from '../audio/codecs.ts';
import { type AudioSettings, serializeSettings } from '../session/audio-settings.ts';
import { Session } from '../session/session.ts';
import type { SessionParts } from '../session/session-parts.ts';
import { type StoredPlace, WHIP_PREFIX } from '../usage/stored-place.ts';
import { openHandover } from './handed-over-client.ts';
import { LatestWrite } from './latest-write.ts';
import { preferencesOf } from './query.ts';
import { sealResumption } from './resumption.ts';
import type { KnownClient, SessionOpeningParts } from './session-opening.ts';
import type { Ids, Lease } from './take-lease.ts';

/** The lease of a client, and the settings with which its session continues. */
export type SessionLease = Omit<Lease, 'settings'> & { settings: AudioSettings | undefined };

/**
 * Makes the session of a client.
 * @param mayMove true if the client may be handed over to the process of its room
 * @returns the session, and a function that injects messages as if the client had sent them
 */
export function addSession(
  client: KnownClient,
  ids: Ids,
  lease: SessionLease,
  parts: SessionOpeningParts,
  mayMove: boolean,
): { session: Session; receive: Session['receive'] } {
  const { leases, sessions, places, metrics } = parts;
  const { socket, stream, query, credentials } = client;
  const { sessionId, connectionId } = ids;
  const { account, keyId, signedBy } = credentials;
  const fields = { account: account.id, peer: query.peer, session: sessionId };
  const log = parts.clientLog.of(account, client.log.child(fields));
  const saveSettings = settingsWriter(ids, lease, parts, log);
  const reporter = placeReporter(client, ids, lease, parts, log);
  const onClosed: SessionParts['onClosed'] = (reason, { mayComeBack, place, settings }) => {
    handover?.close();
    metrics.ended(reason);
    parts.connections.ended(account, reason, performance.now());
    sessions.delete(session);
    const owner = { account: session.account, keyId, signedBy, sessionId };
    const kept = { settings, saveSettings, log, reason, release: lease.release };
    const hasKeptPlace = () => places.get(account.id, query.peer) || reporter.isKeptElsewhere();
    if (place) places.keep({ ...owner, ...place, ...kept });
    // A release would remove the place of the connection before from Redis, too.
    else if (mayComeBack && hasKeptPlace()) lease.letExpire();
    else lease.release(mayComeBack ? places.keepMs : 0);
  };
  const session: Session = new Session(socket, {
    ...partsOf(client, ids, lease, parts),
    ...reporter.callbacks,
    log,
    onSettings: saveSettings,
    onClosed,
  });
  const onMoved = () => {
    metrics.ended('moved');
    sessions.delete(session);
    leases.handOver(lease.holder);
  };
  const known = { sessionId, connectionId, query, credentials };
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

/** Returns the parts of a session that do not depend on its end or its place. */
function partsOf(
  { stream, query, credentials }: KnownClient,
  { sessionId, connectionId }: Ids,
  { order, settings }: SessionLease,
  parts: SessionOpeningParts,
) {
  const { account } = credentials;
  return {
    stream,
    id: sessionId,
    connectionId,
    order,
    resumeToken: sealResumption(parts.sealer, account.id, query.peer, sessionId),
    credentials,
    peer: query.peer,
    audio: preferencesOf(query.audio, account),
    settings,
    checkJoin: async ({ id, plan }, isNew) => {
      // A client that is in a room already may change rooms under load.
      if (isNew) parts.checkLoad();
      await parts.quota.check(id, plan);
    },
    wantsStats: query.stats,
    requestLimits: parts.requestLimits,
    rooms: parts.rooms,
    places: parts.places,
    codecs: codecsOfAccount(parts.codecs, account.id),
    timings: parts.timings,
  } satisfies Partial<SessionParts>;
}

/** Returns a function that stores the settings of a session, the newest last. */
function settingsWriter(
  { sessionId }: Ids,
  { holder }: SessionLease,
  { leases }: SessionOpeningParts,
  log: FastifyBaseLogger,
): SessionParts['onSettings'] {
  const writes = new LatestWrite(
    (settings) => leases.save(holder, { sessionId, settings }),
    (fault) => log.warn({ err: fault }, 'client settings not saved'),
  );
  return (settings) => writes.write(serializeSettings(settings));
}

/**
 * Returns the callbacks by which a session shares its place and gives up the one that its peer had on another node (`callbacks`), and
 * whether that earlier place may still be kept there: neither taken up nor given up (`isKeptElsewhere`).
 */
function placeReporter(
  { query, credentials }: KnownClient,
  { sessionId }: Ids,
  { holder, order, lastPlace, admittedAtMs }: SessionLease,
  parts: SessionOpeningParts,
  log: FastifyBaseLogger,
): {
  callbacks: Pick<SessionParts, 'onPlace' | 'onSettled' | 'giveUpElsewhere'>;
  isKeptElsewhere: () => boolean;
} {
  const { leases, places, takeover } = parts;
  const isElsewhere = lastPlace !== undefined && !places.get(credentials.account.id, query.peer);
  let elsewhere = isElsewhere ? lastPlace : undefined;
  const warnOf = (failure: string) => (fault: unknown) => log.warn({ err: fault }, failure);
  const onNotStored = warnOf('place of the peer not stored');
  const onNotAnnounced = warnOf('move of the peer not announced');
  const callbacks: ReturnType<typeof placeReporter>['callbacks'] = {
    onPlace: (room, kind) => {
      const place = room === undefined ? undefined : { sessionId, room, kind };
      leases.savePlace(holder, place).catch(onNotStored);
    },
    onSettled: (room) => {
      if (isElsewhere) takeover.settled(holder, order, room).catch(onNotAnnounced);
      elsewhere = undefined;
    },
    giveUpElsewhere: (reason) => {
      const given = elsewhere;
      if (given) takeover.left(holder, order, reason).catch(onNotAnnounced);
      elsewhere = undefined;
      if (!given || mayStillBeKept(given, admittedAtMs, parts)) return given;
      // Redis still has it, because its lease was taken over.
      leases.savePlace(holder).catch(onNotStored);
      return undefined;
    },
  };
  const isKeptElsewhere = () =>
    elsewhere !== undefined && mayStillBeKept(elsewhere, admittedAtMs, parts);
  return { callbacks, isKeptElsewhere };
}

/** Returns false if the place that a peer had before its admission has ended by now without having been taken up. */
function mayStillBeKept(
  { sessionId }: StoredPlace,
  admittedAtMs: number,
  { places, timings }: SessionOpeningParts,
): boolean {
  // A session of WHIP that is replaced keeps no place.
  if (sessionId.startsWith(WHIP_PREFIX)) return false;
  // The connection before may live for a moment after it was replaced.
  return performance.now() - admittedAtMs < timings.movesWithinMs + places.keepMs;
}
