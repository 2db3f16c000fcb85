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
import { RestGuard } from '../http/rest.ts';
import { registerPlugins } from '../http/server.ts';
import { registerTokenRoute } from '../http/token-route.ts';
import { UsageReports } from '../http/usage-reports.ts';
import { registerUsageRoute } from '../http/usage-route.ts';
import { Visitors } from '../http/visitors.ts';
import { registerWebhookRoute } from '../http/webhook-route.ts';
import type { Reserves } from '../load/reserves.ts';
import { Operator } from '../operator/operator.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import type { Arrivals } from '../signaling/arrivals.ts';
import { kick } from '../signaling/kick.ts';
import { RequestLimits } from '../signaling/request-limits.ts';
import { registerWebSocketRoute } from '../signaling/websocket-route.ts';
import { UsageReader } from '../usage/usage-reader.ts';
import { WebhookOutbox } from '../webhooks/webhook-outbox.ts';
import type { Leaving } from './leaving.ts';
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
  rooms: RoomRegistry;
  arrivals: Arrivals;
  metrics: Metrics;
  leaving: Leaving;
  state: NodeState;
};

/**
 * Registers everything that is served: REST, metrics, pages and `/ws`.
 * @returns takes a client over from another process
 */
export async function openRoutes(
  opening: Opening,
  server: FastifyInstance,
  parts: RouteParts,
): Promise<App['takeOver']> {
  const { settings, timings, opened, shared } = opening;
  const visiting = {
    isProxied: settings.TRUST_PROXY !== '',
    maxPerAddress: settings.CONNECTIONS_PER_ADDRESS,
  };
  const visitors = opened.adopt(
    new Visitors(server, visiting, timings.http.summaryEveryMs),
    (part) => part.close(),
  );
  registerHardening(server);
  await registerPlugins(server, () => parts.clients.sessions.drain());
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
  return registerWebSocket(opening, server, visitors, parts);
}

async function registerRest(
  { settings }: Opening,
  server: FastifyInstance,
  visitors: Visitors,
  { store, accounts: accountParts, ...parts }: RouteParts,
): Promise<void> {
  const { accounts, authenticator, limits, tokens, invites } = accountParts;
  const { redis, clock } = store;
  const { usage, clients, media, rooms, leaving, state } = parts;
  const rest = asRestServer(server);
  const onKnown = (request: FastifyRequest) => visitors.known(request);
  const guard = new RestGuard(authenticator, limits, settings.OPERATOR_KEY, onKnown);
  const reports = new UsageReports(new UsageReader(redis), clock.wallMs);
  registerMeRoute(rest, { guard, leases: usage.leases, usage: usage.recent, clock });
  registerUsageRoute(rest, { guard, reports });
  registerTokenRoute(rest, { guard, tokens });
  await registerInviteRoutes(rest, { guard, authenticator, limits, invites, tokens, onKnown });
  const operator = new Operator(media.cluster.questions, {
    describe: () => state.describe(),
    rooms,
    drain: leaving.start,
    kick: (...peer) => kick(clients, ...peer),
  });
  registerAdminRoutes(rest, { guard, accounts, reports, drain: leaving.start });
  registerWebhookRoute(rest, { guard, accounts, outbox: new WebhookOutbox(redis) });
  registerOperatorRoutes(rest, { guard, operator });
  registerHealthRoutes(
    rest,
    () => state.readReadiness(),
    () => state.hung,
  );
}

function registerWebSocket(
  { settings, timings, shared }: Opening,
  server: FastifyInstance,
  visitors: Visitors,
  { store, accounts, clients, usage, media, audio, load, reserves, ...parts }: RouteParts,
): App['takeOver'] {
  const { rooms, arrivals, metrics } = parts;
  return registerWebSocketRoute(server, {
    ...clients,
    authenticator: accounts.authenticator,
    visitors,
    connections: new ConnectionBudget(timings.budgets.blockMs),
    leases: usage.leases,
    arrivals,
    sealer: media.cluster.sealer,
    usage: usage.recent,
    clock: store.clock,
    quota: usage.quota,
    rooms,
    checkLoad: () => {
      load.monitor.check();
      reserves.check();
    },
    metrics,
    requestLimits: new RequestLimits(settings.MESSAGES_PER_SECOND, timings.budgets),
    codecs: audio.codecs,
    timings: timings.sessions,
    homes: shared?.homes,
  });
}
