import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import type { Settings } from '../config/settings.ts';
import type { Timings } from '../config/timings.ts';
import { Accounts } from './accounts/accounts.ts';
import { Authenticator } from './accounts/authenticator.ts';
import { ConnectionBudget } from './accounts/connection-budget.ts';
import { RateLimits } from './accounts/rate-limits.ts';
import { Tokens } from './accounts/tokens.ts';
import { registerAdminRoutes } from './http/admin-routes.ts';
import { asRestServer, registerApiDocs } from './http/api-docs.ts';
import { registerOperatorRoutes } from './http/operator-routes.ts';
import { RestGuard } from './http/rest.ts';
import { newServer, registerPlugins, urlOf } from './http/server.ts';
import { registerTokenRoute } from './http/token-route.ts';
import { UsageReports } from './http/usage-reports.ts';
import { registerUsageRoute } from './http/usage-route.ts';
import { registerWebhookRoute } from './http/webhook-route.ts';
import { type DemoAccount, openDemoAccount } from './accounts/demo-account.ts';
import { counts } from './counts.ts';
import { VERSION } from './version.ts';
import { FrameClock } from './audio/clock.ts';
import { Cluster } from './cluster/cluster.ts';
import { loadCodecs } from './audio/codecs.ts';
import { warmUpDetection } from './audio/ingest/detection/detector.ts';
import { MixHost } from './audio/mixing/mix-host.ts';
import { ConnectionLimit } from './http/connection-limit.ts';
import { registerHardening } from './http/hardening.ts';
import { registerHealthRoutes } from './http/health-routes.ts';
import { registerMeRoute } from './http/me-route.ts';
import { type MetricFamilies, Metrics, registerMetrics } from './http/metrics.ts';
import { Visitors } from './http/visitors.ts';
import { EncoderSteps } from './load/encoder-steps.ts';
import type { LoadLevel } from './load/load-level.ts';
import { LoadMonitor } from './load/load-monitor.ts';
import { LoadSampler } from './load/load-sampler.ts';
import { Reserves } from './load/reserves.ts';
import { logClients, suppliesOf } from './load/supplies.ts';
import { registerProblems } from './http/problem.ts';
import { IceServers } from './media/ice-servers.ts';
import { LOOPBACK_PORTS } from './media/loopback.ts';
import { MediaWorkerPool } from './media/media-worker-pool.ts';
import { startUsageWorker } from './children/usage-worker-process.ts';
import { describeNode } from './operator/describe-node.ts';
import { Operator } from './operator/operator.ts';
import { RelayBudgets } from './rooms/relay-budgets.ts';
import { RoomRegistry } from './rooms/registry.ts';
import { Slices } from './slices.ts';
import { Drain } from './signaling/drain.ts';
import { RequestLimits } from './signaling/request-limits.ts';
import { Sessions } from './signaling/sessions.ts';
import { registerWebSocketRoute } from './signaling/websocket-route.ts';
import { Redis } from './store/redis.ts';
import { adviseOnRedis } from './store/redis-advice.ts';
import { RedisClock } from './store/redis-clock.ts';
import { openRedisUrl, redisAddressOf } from './store/open-redis.ts';
import { CcuLeases } from './usage/ccu-leases.ts';
import { Meter } from './usage/meter.ts';
import { Quota } from './usage/quota.ts';
import { RecentUsage } from './usage/recent-usage.ts';
import { countWaitingJobs } from './usage/usage-queue.ts';
import { UsageReader } from './usage/usage-reader.ts';
import { UsageReporter } from './usage/usage-reporter.ts';
import { UsageStore } from './usage/usage-store.ts';
import { readUsageWorkers } from './usage/usage-workers.ts';
import { WebhookOutbox } from './webhooks/webhook-outbox.ts';
import { Webhooks } from './webhooks/webhooks.ts';
import { watchAccounts } from './signaling/account-watch.ts';
import { Arrivals } from './signaling/arrivals.ts';
import { KeptPlaces } from './signaling/kept-places.ts';
import type { Homes, MovingClient } from './signaling/moving.ts';
import { kick } from './signaling/kick.ts';

export type { Homes, MetricFamilies, MovingClient };

/** A running gateway. */
export type App = {
  log: FastifyBaseLogger;
  url: string;
  demo: DemoAccount | undefined;
  /** What is open now; all 0 when nobody is connected. */
  counts(): { sessions: number; rooms: number };
  /** How many rooms the media workers themselves know of. */
  countRouters(): Promise<number>;
  mediaWorkerPids(): number[];
  /** The figures of this process. */
  readMetrics(): Promise<MetricFamilies>;
  /** Whether new clients are taken at the moment. */
  takesClients(): boolean;
  /** Goes on with a client that another process on the same port has let go of. */
  takeOver(client: MovingClient, connection: Socket): void;
  /** Takes no more connections; those that are open stay so. */
  stopListening(): void;
  /**
   * Takes nobody any more, and asks all to go; closes when they have, or when they may no longer stay (by default DRAIN_MS).
   * @param by who asked for it, for the log
   */
  leave(withinMs?: number, by?: string): Promise<void>;
  /** Ends every session before it returns, then closes every part, in the reverse of the order in which they were opened. */
  close(): Promise<void>;
};

/** Names of the processes of this node that hang, and how many of its gateway processes died. */
type ProcessesHealth = { readonly hung: string[]; readonly deaths: number };

/** A gateway that is the only one of its node. */
const ALONE: ProcessesHealth = { hung: [], deaths: 0 };

/** What one of several gateways on the same port has beyond its settings. */
export type Shared = {
  /** Tells its log lines and figures from the others'. */
  name: string;
  /** In which of them each room is. */
  homes: Homes;
  /** An operator asked for the node, which is all of them, to end. */
  drainAll(withinMs: number, by: string): void;
  /** The figures of the others, as far as they answer. */
  readOtherMetrics(): Promise<MetricFamilies[]>;
  /** Of all of them, and of the supervisor. */
  health: ProcessesHealth;
};

/**
 * Builds every part and hands each its settings.
 * @param abort ends the waiting for Redis
 * @throws {Error} if a part cannot be opened; those before it are closed then
 */
export async function openApp(
  settings: Settings,
  timings: Timings,
  shared?: Shared,
  abort?: AbortSignal,
): Promise<App> {
  const opened = new AsyncDisposableStack();
  try {
    return await openParts(settings, timings, opened, shared, abort);
  } catch (fault) {
    await opened.disposeAsync();
    throw fault;
  }
}

async function openParts(
  settings: Settings,
  timings: Timings,
  opened: AsyncDisposableStack,
  shared: Shared | undefined,
  abort: AbortSignal | undefined,
): Promise<App> {
  const server = await newServer(settings, timings.http, shared?.name);
  const { log } = server;
  log.info({ version: VERSION, node: process.version }, 'gateway starts');
  const address = redisAddressOf({
    ...settings,
    REDIS_URL: await openRedisUrl({ settings, timings: timings.redis, opened, log, abort }),
  });
  const redis = opened.adopt(await Redis.connect(address, log, timings.redis, { abort }), (part) =>
    part.close(),
  );
  if (redis.ownDataDir === undefined) await adviseOnRedis(redis, log);
  const clock = opened.adopt(await RedisClock.open(redis, log, timings.redis), (part) =>
    part.close(),
  );
  const accounts = new Accounts(redis);
  // Of several gateways, the supervisor has opened it.
  const demo = shared ? undefined : await openDemoAccount(redis, settings, log);
  const limits = new RateLimits(redis, {
    authFailuresPerAddress: settings.AUTH_FAILURES_PER_ADDRESS,
    authFailuresPerKeyPrefix: settings.AUTH_FAILURES_PER_KEY,
    requestsPerAccount: settings.REQUESTS_PER_ACCOUNT,
  });
  const tokens = new Tokens(redis, clock);
  const authenticator = new Authenticator(accounts, tokens, limits);
  const sessions = new Sessions(timings.sessions);
  const drain = new Drain(sessions, log);
  const metrics = new Metrics(shared?.name);
  const places = new KeptPlaces(settings.RESUME_MS);
  const accountWatch = await watchAccounts(redis, accounts, tokens, sessions, places, log);
  const usage = new UsageStore(redis);
  const recentUsage = new RecentUsage(usage, timings.usage);
  const meter = new Meter(clock);
  const webhooks = opened.adopt(
    await Webhooks.open(redis, accounts, log, timings.webhooks, {
      nowMs: clock.wallMs,
      maxEvents: settings.WEBHOOK_MAX_EVENTS,
    }),
    (part) => part.close(),
  );
  const quota = openQuota(recentUsage, clock, { sessions, places }, webhooks);
  opened.adopt(
    openReporter(meter, usage, { quota, recentUsage, sessions, places }, log, timings.usage, clock),
    (part) => part.close(),
  );
  for (let worker = 0; worker < settings.USAGE_WORKERS; worker += 1) {
    opened.adopt(startUsageWorker(settings, log, timings), (part) => part.close());
  }
  const leases = opened.adopt(
    new CcuLeases(redis, log, (...taken) => sessions.end(...taken), timings.leases),
    (part) => part.close(settings.RESUME_MS),
  );
  const pool = opened.adopt(
    await MediaWorkerPool.open(
      {
        mediaWorkers: settings.MEDIA_WORKERS,
        workerBin: settings.MEDIASOUP_WORKER_BIN,
        rtcListenIp: settings.RTC_LISTEN_IP,
        rtcAnnouncedAddress: settings.RTC_ANNOUNCED_ADDRESS,
        rtcPort: settings.RTC_PORT,
        rtcTcp: settings.RTC_TCP,
        routerMaxConsumers: settings.ROUTER_MAX_CONSUMERS,
        timings: timings.mediaWorkers,
      },
      log,
    ),
    (part) => part.close(),
  );
  const cluster = opened.adopt(
    await Cluster.open(
      redis,
      {
        clusterKey: settings.CLUSTER_KEY,
        pipes: {
          listenIp: settings.PIPE_LISTEN_IP,
          announcedAddress: settings.PIPE_ANNOUNCED_ADDRESS,
          portRange: { min: settings.PIPE_PORT_MIN, max: settings.PIPE_PORT_MAX },
        },
      },
      log,
      timings,
    ),
    (part) => part.close(settings.RESUME_MS),
  );
  opened.adopt(places, (part) => part.close());
  const arrivals = new Arrivals(cluster.bus, sessions, places, timings.sessions);
  const codecSettings = {
    bitrateBps: settings.OPUS_BITRATE_BPS,
    complexity: settings.OPUS_COMPLEXITY,
  };
  const codecs = await loadCodecs(codecSettings);
  warmUpDetection();
  const { encoders } = codecs.opus;
  if (encoders.fault === undefined) log.info({ encoders: encoders.name }, 'codecs loaded');
  else
    log.warn(
      { encoders: encoders.name, err: encoders.fault },
      'no native libopus: encoding costs twice as much',
    );
  const mixHost = opened.adopt(
    new MixHost(settings.MIX_THREADS, codecs, codecSettings, {
      onFault: (fault) => log.error({ err: fault }, 'a codec could not be opened'),
      onThreadLost: (reason) => log.error({ reason }, 'a mixing thread was lost'),
    }),
    (part) => part.close(),
  );
  const encoderSteps = new EncoderSteps(settings.OPUS_COMPLEXITY);
  const load = openLoadMonitor(settings, timings.load, log, pool, opened, (level) =>
    mixHost.setComplexity(encoderSteps.at(level, performance.now())),
  );
  const relayBudgets = new RelayBudgets();
  const rooms = opened.adopt(
    new RoomRegistry({
      pool,
      cluster,
      mixHost,
      meterPeer: (accountId, room, kind) => meter.enter(accountId, room, kind),
      chargeRelay: (accountId, cost) => relayBudgets.charge(accountId, cost, performance.now()),
      meterSize: (accountId, room, peers) => meter.resize(accountId, room, peers),
      onJoined: (...joined) => webhooks.peerJoined(...joined),
      onLeft: (...left) => webhooks.peerLeft(...left),
      clock: new FrameClock(),
      slices: new Slices((fault) => log.error({ err: fault }, 'work in a room failed')),
      iceServers: new IceServers(
        settings.TURN_URLS.split(',').filter((url) => url !== ''),
        settings.TURN_SECRET,
        clock.wallMs,
      ),
      log,
      maxMixedSpeakers: settings.MIX_MAX_SPEAKERS,
      talkThresholdDbov: settings.TALK_THRESHOLD_DBOV,
      talkHoldMs: settings.TALK_HOLD_MS,
    }),
    (part) => part.close(),
  );
  const connectionLimit = new ConnectionLimit(server.server, log);
  const supplies = suppliesOf({
    onFreeDescriptors: (free) => connectionLimit.allow(free),
    mediaWorkerPids: () => pool.pids,
    pipes: {
      count: () => cluster.countPipePorts(),
      // All processes of the machine share the range.
      ports: Math.ceil((settings.PIPE_PORT_MAX - settings.PIPE_PORT_MIN + 1) / settings.PROCESSES),
    },
    rooms: { count: () => rooms.size, ports: Math.floor(LOOPBACK_PORTS / settings.PROCESSES) },
    dataDir: redis.ownDataDir,
  });
  const reserves = opened.adopt(
    new Reserves(log, timings.load, supplies, counts.shortages),
    (part) => part.close(),
  );
  const visiting = {
    isProxied: settings.TRUST_PROXY !== '',
    maxPerAddress: settings.CONNECTIONS_PER_ADDRESS,
  };
  const visitors = opened.adopt(
    new Visitors(server, visiting, timings.http.summaryEveryMs),
    (part) => part.close(),
  );
  registerHardening(server);
  await registerPlugins(server, () => sessions.drain());
  registerProblems(server);
  await registerApiDocs(server);
  const rest = asRestServer(server);
  const guard = new RestGuard(authenticator, limits, settings.OPERATOR_KEY, (request) =>
    visitors.known(request),
  );
  const reports = new UsageReports(new UsageReader(redis), clock.wallMs);
  registerMeRoute(rest, { guard, leases, usage: recentUsage, clock });
  registerUsageRoute(rest, { guard, reports });
  registerTokenRoute(rest, { guard, tokens });
  let isClosing = false;
  const close = () => {
    isClosing = true;
    pool.letEnd();
    sessions.drain();
    return opened.disposeAsync();
  };
  const leave = async (withinMs = settings.DRAIN_MS, by = 'its process') => {
    await drain.begin(withinMs, by);
    await close();
  };
  const startLeaving = (withinMs = settings.DRAIN_MS, by: string) => {
    const timeLeftMs = drain.timeLeftMs(withinMs);
    if (shared) shared.drainAll(withinMs, by);
    else {
      leave(withinMs, by).catch((fault: unknown) => {
        log.error({ err: fault }, 'not closed cleanly');
      });
    }
    return timeLeftMs;
  };
  const readState = () => ({
    sessions: sessions.size,
    rooms: rooms.size,
    peers: meter.countPeers(),
    keptPlaces: places.size,
    pipes: cluster.countPipes(),
    relays: cluster.countRelays(),
    load: { level: load.level, ...load.latest },
    mediaWorkers: pool.describe(),
  });
  const operator = new Operator(cluster.questions, {
    describe: () =>
      describeNode({
        ...readState(),
        id: cluster.node,
        isDraining: drain.isDraining,
        dropped: counts.dropped,
      }),
    rooms,
    drain: startLeaving,
    kick: (...peer) => kick({ sessions, places }, ...peer),
  });
  registerAdminRoutes(rest, { guard, accounts, reports, drain: startLeaving });
  registerWebhookRoute(rest, { guard, accounts, outbox: new WebhookOutbox(redis) });
  registerOperatorRoutes(rest, { guard, operator });
  const readiness = () => ({
    media_workers: pool.pids.length > 0,
    not_draining: !drain.isDraining,
    not_overloaded: load.level !== 'overloaded' && !reserves.isShort,
  });
  const health = shared?.health ?? ALONE;
  registerHealthRoutes(
    rest,
    async () => ({ redis: await redis.isThere(), ...readiness() }),
    () => health.hung,
  );
  const readMetrics = async () => {
    const backlog = await readBacklog(redis, usage, webhooks, clock);
    return metrics.families({
      ...readState(),
      version: VERSION,
      isReady: backlog !== undefined && Object.values(readiness()).every(Boolean),
      nodes: cluster.size,
      processes: health,
      counts,
      encoderComplexity: encoderSteps.complexity,
      mixThreads: mixHost.threads,
      resources: reserves.describe(),
      jitterBuffers: mixHost.depth,
      clock,
      backlog,
    });
  };
  const gather = async () => {
    const [own, others] = await Promise.all([readMetrics(), shared?.readOtherMetrics()]);
    return [own, ...(others ?? [])];
  };
  registerMetrics(server, gather, timings.load.scrapeEveryMs);
  const takeOver = registerWebSocketRoute(server, {
    authenticator,
    visitors,
    connections: new ConnectionBudget(timings.budgets.blockMs),
    leases,
    arrivals,
    places,
    seal: cluster.seal,
    usage: recentUsage,
    clock,
    quota,
    rooms,
    sessions,
    drain,
    checkLoad: () => {
      load.check();
      reserves.check();
    },
    accountWatch,
    metrics,
    requestLimits: new RequestLimits(settings.MESSAGES_PER_SECOND, timings.budgets),
    codecs,
    timings: timings.sessions,
    homes: shared?.homes,
  });
  opened.adopt(server, (part) => part.close());
  const { HOST: host, PORT: port } = settings;
  const listening = { host, port, reusePort: shared !== undefined };
  reserves.sample();
  logClients(log, supplies);
  await server.listen(listening);
  return {
    log,
    url: urlOf(server, settings),
    demo,
    counts: () => ({ sessions: sessions.size, rooms: rooms.size }),
    countRouters: () => pool.countRouters(),
    mediaWorkerPids: () => pool.pids,
    readMetrics,
    takesClients: () =>
      !isClosing && !drain.isDraining && load.level !== 'overloaded' && !reserves.isShort,
    takeOver: (client, connection) => {
      if (isClosing) connection.destroy();
      else takeOver(client, connection);
    },
    stopListening: () => server.server.close(),
    leave,
    close,
  };
}

function openLoadMonitor(
  settings: Settings,
  timings: Timings['load'],
  log: FastifyBaseLogger,
  pool: MediaWorkerPool,
  opened: AsyncDisposableStack,
  onLevel: (level: LoadLevel) => void,
): LoadMonitor {
  const sampler = opened.adopt(
    new LoadSampler(() => pool.describe().map(({ cpuShare }) => cpuShare)),
    (part) => part.close(),
  );
  const marks = {
    loopDelayMs: settings.OVERLOAD_LOOP_DELAY_MS,
    cpuShare: settings.OVERLOAD_CPU_PERCENT / 100,
    memoryBytes: settings.OVERLOAD_MEMORY_MB * 1e6,
  };
  const monitor = new LoadMonitor(() => sampler.sample(), marks, log, onLevel, timings);
  return opened.adopt(monitor, (part) => part.close());
}

/** What the workers have before them; undefined if Redis is away or takes no writes, which must not keep the other figures back. */
async function readBacklog(redis: Redis, usage: UsageStore, webhooks: Webhooks, clock: RedisClock) {
  const ageMs = (sinceMs: number | undefined) =>
    sinceMs === undefined ? 0 : Math.max(0, clock.wallMs() - sinceMs);
  if (!(await redis.isThere())) return undefined;
  try {
    const [{ minutes, oldestEndMs }, waitingJobs, waiting, workers] = await Promise.all([
      usage.countOpen(),
      countWaitingJobs(redis),
      webhooks.count(),
      readUsageWorkers(redis),
    ]);
    return {
      openMinutes: minutes,
      oldestOpenMinuteMs: ageMs(oldestEndMs),
      waitingJobs,
      webhooks: { ...waiting, oldestMs: ageMs(waiting.oldestMs) },
      workers,
    };
  } catch {
    // It has been logged.
    return undefined;
  }
}

/** What happens when an account's minutes run low, or out. */
function openQuota(
  usage: RecentUsage,
  clock: RedisClock,
  { sessions, places }: { sessions: Sessions; places: KeptPlaces },
  webhooks: Webhooks,
): Quota {
  return new Quota(usage, clock, {
    onWarning: (accountId, remainingMinutes, resetsAt) => {
      const warning = {
        remaining_minutes: Math.round(remainingMinutes * 100) / 100,
        resets_at: resetsAt,
      };
      for (const session of sessions.of(accountId)) {
        session.notify({ type: 'quota_warning', ...warning });
      }
    },
    onExhausted: (accountId, resetsAt) => {
      webhooks.quotaExhausted(accountId, resetsAt);
      for (const session of sessions.of(accountId)) session.exhaust(resetsAt);
      places.exhaust(accountId);
    },
  });
}

function openReporter(
  meter: Meter,
  usage: UsageStore,
  told: { quota: Quota; recentUsage: RecentUsage; sessions: Sessions; places: KeptPlaces },
  log: FastifyBaseLogger,
  timings: Timings['usage'],
  clock: RedisClock,
): UsageReporter {
  const { quota, recentUsage, sessions, places } = told;
  const onTotal = (accountId: number, monthMs: number, wallMs: number) => {
    // A peer that joins right after the others were told that nothing is left must be told so, too.
    recentUsage.learn(accountId, wallMs, monthMs);
    const [session] = sessions.of(accountId);
    const account = session?.account ?? places.of(accountId)[0]?.place.account;
    if (account) quota.update(accountId, account.plan, monthMs, wallMs);
  };
  return new UsageReporter(meter, usage, log, onTotal, timings, clock);
}
