import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ConnectionBudget } from '../accounts/connection-budget.ts';
import { registerAdminRoutes } from '../http/admin-routes.ts';
import { asRestServer, registerApiDocs } from '../http/api-docs.ts';
import { registerHardening } from '../http/hardening.ts';
import { registerHealthRoutes } from '../http/health-routes.ts';
import { registerMeRoute } from '../http/me-route.ts';
import { registerInviteRoutes } from '../http/invite-routes.ts';
import { type Metrics, registerMetrics } from '../http/metrics.ts';
import { registerOperatorRoutes } from '../http/operator-routes.ts';
import { registerProblems } from '../http/problem.ts';
import type { Sender } from '../http/request-log.ts';
import { RestGuard } from '../http/rest.ts';
import { registerPlugins } from '../http/server.ts';
import { registerTokenRoute } from '../http/token-route.ts';
import { UsageReports } from '../http/usage-reports.ts';
import { registerUsageRoute } from '../http/usage-route.ts';
import { limitPipelining } from '../http/pipelining.ts';
import type { UnauthenticatedConnections } from '../http/unauthenticated-connections.ts';
import { Visitors } from '../http/visitors.ts';
import { registerWebhookRoute } from '../http/webhook-route.ts';
import type { Reserves } from '../load/reserves.ts';
import { Operator } from '../operator/operator.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import { ClientLog } from '../admission/client-log.ts';
import type { PeerTakeover } from '../admission/peer-takeover.ts';
import { kick } from '../admission/kick.ts';
import { mute } from '../admission/mute.ts';
import { RequestLimits } from '../session/request-limits.ts';
import { Slices } from '../slices.ts';
import { registerWebSocketRoute } from '../admission/websocket-route.ts';
import { UsageReader } from '../usage/usage-reader.ts';
import { WebhookOutbox } from '../webhooks/webhook-outbox.ts';
import { WhipGuard } from '../whip/guard.ts';
import { registerWhipRoutes } from '../whip/routes.ts';
import { WhipService } from '../whip/whip-service.ts';
import { WhipSessions } from '../whip/whip-sessions.ts';
import type { Shutdown } from './shutdown.ts';
import type { NodeState } from './node-state.ts';
import type { AccountParts } from './open-accounts.ts';
import type { Audio } from './open-audio.ts';
import type { Clients } from './open-clients.ts';
import type { Load } from './open-load.ts';
import type { Media } from './open-media.ts';
import type { Store } from './open-store.ts';
import type { UsageParts } from './open-usage.ts';
import type { App, Opening } from './opening.ts';

export type RouteParts = {
  store: Store;
  accounts: AccountParts;
  clients: Clients;
  usage: UsageParts;
  media: Media;
  audio: Audio;
  load: Load;
  reserves: Reserves;
  unauthenticated: UnauthenticatedConnections;
  rooms: RoomRegistry;
  takeover: PeerTakeover;
  metrics: Metrics;
  shutdown: Shutdown;
  state: NodeState;
};

/**
 * Registers everything that is served: REST, metrics, pages and `/ws`.
 * @returns a function that takes over a client from another process
 */
export async function openRoutes(
  opening: Opening,
  server: FastifyInstance,
  parts: RouteParts,
): Promise<App['takeOver']> {
  const { settings, timings, opened, shared } = opening;
  const visiting = {
    isProxied: settings.TRUST_PROXY !== '',
    unauthenticated: parts.unauthenticated,
  };
  const visitors = opened.adopt(
    new Visitors(server, visiting, timings.http.summaryEveryMs),
    (part) => part.close(),
  );
  const slices = new Slices((fault) => server.log.error({ err: fault }, 'request failed'));
  limitPipelining(server.server, slices, (address) =>
    visitors.refused(address, 'too many unanswered requests'),
  );
  registerHardening(server);
  await registerPlugins(server, () => parts.clients.sessions.drain(), slices);
  registerProblems(server);
  await registerApiDocs(server);
  await registerRest(opening, server, visitors, parts);
  const readAll = async () => {
    const [own, others] = await Promise.all([
      parts.state.readMetrics(),
      shared?.readOtherMetrics(),
    ]);
    return [own, ...(others ?? [])];
  };
  registerMetrics(server, readAll, timings.load.scrapeEveryMs);
  const limits = openLimits(opening, parts);
  await registerWhip(opening, server, visitors, limits, parts);
  return registerWebSocket(opening, server, visitors, limits, parts);
}

async function registerRest(
  { settings, timings }: Opening,
  server: FastifyInstance,
  visitors: Visitors,
  { store, accounts: accountParts, ...parts }: RouteParts,
): Promise<void> {
  const { accounts, authenticator, limits, tokens, invites } = accountParts;
  const { redis, clock } = store;
  const { usage, clients, media, rooms, shutdown, state } = parts;
  const rest = asRestServer(server);
  const onKnown = (request: FastifyRequest, sender: Sender) => visitors.known(request, sender);
  const guard = new RestGuard(authenticator, limits, settings.OPERATOR_KEY, onKnown);
  const reports = new UsageReports(new UsageReader(redis), clock.wallMs, timings.usage);
  registerMeRoute(rest, { guard, leases: usage.leases, usage: usage.recent, clock });
  registerUsageRoute(rest, { guard, reports });
  registerTokenRoute(rest, { guard, tokens });
  await registerInviteRoutes(rest, { guard, authenticator, limits, invites, tokens, onKnown });
  const operator = new Operator(media.cluster.rpc, {
    describe: () => state.describe(),
    rooms,
    drain: shutdown.startDrain,
    kick: (...peer) => kick(clients, ...peer),
    mute: (...peer) => mute(clients, server.log, ...peer),
  });
  registerAdminRoutes(rest, { guard, accounts, reports, drain: shutdown.startDrain });
  registerWebhookRoute(rest, { guard, accounts, outbox: new WebhookOutbox(redis) });
  registerOperatorRoutes(rest, { guard, operator });
  registerHealthRoutes(
    rest,
    () => state.readReadiness(),
    () => state.hung,
  );
}

/** Limits that clients of all kinds share. */
type ClientLimits = {
  connections: ConnectionBudget;
  requestLimits: RequestLimits;
  clientLog: ClientLog;
  checkLoad: () => void;
};

const openLimits = (
  { settings, timings, log, opened }: Opening,
  { load, reserves }: RouteParts,
): ClientLimits => ({
  connections: new ConnectionBudget(timings.budgets.blockMs),
  requestLimits: new RequestLimits(settings.MESSAGES_PER_SECOND, timings.budgets),
  clientLog: opened.adopt(new ClientLog(log, timings.http.summaryEveryMs), (part) => part.close()),
  checkLoad: () => {
    load.monitor.check();
    reserves.check();
  },
});

async function registerWhip(
  { timings, log }: Opening,
  server: FastifyInstance,
  visitors: Visitors,
  limits: ClientLimits,
  { accounts: accountParts, clients, usage, media, rooms, takeover, metrics }: RouteParts,
): Promise<void> {
  const { accounts, authenticator, limits: rateLimits } = accountParts;
  const { leases, quota } = usage;
  const { cluster } = media;
  const { node } = cluster;
  const parts = { ...clients, ...limits, leases, quota, rooms, takeover, metrics, node, log };
  const service = new WhipService({ ...parts, timings: timings.whip });
  await registerWhipRoutes(asRestServer(server), {
    guard: new WhipGuard({
      authenticator,
      connections: limits.connections,
      limits: rateLimits,
      changes: () => clients.accountWatch.changes(),
      onKnown: (request, accountId) => visitors.known(request, accountId),
    }),
    sessions: new WhipSessions(service, accounts, cluster, timings.whip),
    onRefused: (code) => metrics.refused(code),
  });
}

function registerWebSocket(
  { timings, shared }: Opening,
  server: FastifyInstance,
  visitors: Visitors,
  limits: ClientLimits,
  { store, accounts, clients, usage, media, audio, ...parts }: RouteParts,
): App['takeOver'] {
  const { rooms, takeover, metrics } = parts;
  return registerWebSocketRoute(server, {
    ...clients,
    ...limits,
    authenticator: accounts.authenticator,
    visitors,
    leases: usage.leases,
    takeover,
    sealer: media.cluster.sealer,
    usage: usage.recent,
    clock: store.clock,
    quota: usage.quota,
    rooms,
    metrics,
    codecs: audio.codecs,
    timings: timings.sessions,
    homes: shared?.homes,
  });
}
