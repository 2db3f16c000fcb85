import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import type { WebSocket } from 'ws';
import { type Credentials, grantsRoom } from '../accounts/authenticator.ts';
import { PLANS } from '../accounts/plans.ts';
import type { Codecs } from '../audio/codecs.ts';
import type { Seal } from '../cluster/seal.ts';
import type { LoadMonitor } from '../load/load-monitor.ts';
import type { PeerKind } from '../protocol/messages.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import type { CcuLeases, LastPlace } from '../usage/ccu-leases.ts';
import type { Quota } from '../usage/quota.ts';
import { readSummary } from '../usage/summary.ts';
import type { UsageStore } from '../usage/usage-store.ts';
import type { AccountWatch } from './account-watch.ts';
import type { Arrivals } from './arrivals.ts';
import type { KeptPlace, KeptPlaces } from './kept-places.ts';
import { type Homes, type MovingClient, wayToOthers } from './moving.ts';
import { preferencesOf, type Query } from './query.ts';
import { sealResumption } from './resumption.ts';
import { Session } from './session.ts';
import type { Sessions } from './sessions.ts';

/** What is counted of sessions. */
type SessionMetrics = {
  admitted(): void;
  refused(reason: string): void;
  ended(reason: string): void;
};

export type SessionOpeningParts = {
  leases: CcuLeases;
  arrivals: Arrivals;
  places: KeptPlaces;
  seal: Seal;
  usage: UsageStore;
  quota: Quota;
  rooms: RoomRegistry;
  sessions: Sessions;
  load: LoadMonitor;
  accountWatch: AccountWatch;
  metrics: SessionMetrics;
  codecs: Codecs;
  /** Undefined where this process is the only one. */
  homes: Homes | undefined;
};

/** A client that is known, on a WebSocket that nobody reads yet. */
export type KnownClient = {
  socket: WebSocket;
  stream: Socket;
  query: Query;
  credentials: Credentials;
  /** Undefined for a new session. */
  sessionId: string | undefined;
  log: FastifyBaseLogger;
  /** What it was about to do when another process let go of it. */
  moved: Pick<MovingClient, 'join' | 'unread'> | undefined;
  /** How many changes of accounts had been heard of when its credentials were looked up. */
  changesBefore: number;
};

/**
 * Gives a client a session, and with it a place among the account's connections.
 * @throws {PartylineError} whatever keeps the client out; nothing is left behind then
 */
export async function openSession(client: KnownClient, parts: SessionOpeningParts): Promise<void> {
  const { socket, stream, query, credentials, moved } = client;
  const { leases, sessions, places, arrivals, quota, load, metrics, accountWatch, seal } = parts;
  const { account } = credentials;
  const { peer } = query;
  const id = client.sessionId ?? randomUUID();
  const connectionId = randomUUID();
  const log = client.log.child({ account: account.id, peer, session: id });
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
      stream,
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
      leaving: moved
        ? undefined
        : wayToOthers(parts, socket, stream, { sessionId: id, query, credentials }, () => {
            sessions.delete(session);
            leases.handOver(holder);
          }),
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
    if (moved) {
      log.info('session taken over');
      session.goOn(moved.join, moved.unread.messages);
    } else {
      metrics.admitted();
      const place = placeToResume(client.sessionId, lastPlace, places.get(account.id, peer));
      session.start(query.room, place && mayBeIn(credentials, place.room) ? place : undefined);
    }
    // What was changed while the client was being let in has passed it by.
    if (accountWatch.changes() !== client.changesBefore) accountWatch.check(account.id);
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
