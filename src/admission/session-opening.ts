import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import type { WebSocket } from 'ws';
import type { Timings } from '../../config/timings.ts';
import type { Credentials } from '../accounts/authenticator.ts';
import type { ConnectionBudget } from '../accounts/connection-budget.ts';
import type { LoadedCodecs } from '../audio/codecs.ts';
import type { Sealer } from '../cluster/sealer.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import type { RequestLimits } from '../session/request-limits.ts';
import type { SuspendedPeers } from '../session/suspended-peers.ts';
import type { RedisClock } from '../store/redis-clock.ts';
import type { CcuLeases } from '../usage/ccu-leases.ts';
import type { Quota } from '../usage/quota.ts';
import type { RecentUsage } from '../usage/recent-usage.ts';
import type { AccountWatch } from './account-watch.ts';
import type { ClientLog } from './client-log.ts';
import type { Drain } from './drain.ts';
import type { HandoverTargets } from './handed-over-client.ts';
import type { PeerTakeover } from './peer-takeover.ts';
import type { SessionQuery } from './query.ts';
import type { Sessions } from './sessions.ts';

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
  clientLog: ClientLog;
  codecs: LoadedCodecs;
  timings: Timings['sessions'];
  /** Other gateway processes of this group; undefined if there are none. */
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
