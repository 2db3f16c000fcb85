import type { AddressInfo } from 'node:net';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import fastifyWebsocket from '@fastify/websocket';
import Fastify, { type FastifyBaseLogger, type FastifyInstance } from 'fastify';
import type { Settings } from '../config/settings.ts';
import { Accounts } from './accounts/accounts.ts';
import { Authenticator } from './accounts/authenticator.ts';
import { RateLimits } from './accounts/rate-limits.ts';
import { Tokens } from './accounts/tokens.ts';
import { registerAdminRoutes } from './http/admin-routes.ts';
import { asRestServer, registerApiDocs } from './http/api-docs.ts';
import { RestGuard } from './http/rest.ts';
import { registerTokenRoute } from './http/token-route.ts';
import { registerUsageRoute } from './http/usage-route.ts';
import { type DemoAccount, openDemoAccount } from './accounts/demo-account.ts';
import { FrameClock } from './audio/clock.ts';
import { loadCodecs } from './audio/codecs.ts';
import { MixHost } from './audio/mixing/mix-host.ts';
import { registerHealthRoutes } from './http/health-routes.ts';
import { registerMeRoute } from './http/me-route.ts';
import { Metrics } from './http/metrics.ts';
import { registerProblems } from './http/problem.ts';
import { MediaWorkerPool } from './media/media-worker-pool.ts';
import { startUsageWorker } from './processes/usage-worker-process.ts';
import { RoomRegistry } from './rooms/registry.ts';
import { Drain } from './signaling/drain.ts';
import { Sessions } from './signaling/sessions.ts';
import { registerWebSocketRoute } from './signaling/websocket-route.ts';
import { Redis } from './store/redis.ts';
import { openRedisUrl, redisAddressOf } from './store/redis-server.ts';
import { CcuLeases } from './usage/ccu-leases.ts';
import { Meter } from './usage/meter.ts';
import { Quota } from './usage/quota.ts';
import { UsageReporter } from './usage/usage-reporter.ts';
import { UsageStore } from './usage/usage-store.ts';
import { watchAccounts } from './signaling/account-watch.ts';
import { watchArrivals } from './signaling/replacements.ts';

/** ws itself closes with 1009 beyond this; up to here the session does, with a word of why. */
const MAX_PAYLOAD_BYTES = 1 << 20;
/** `closeTimeout`: how long a client may take to answer a close before its socket is cut, in ms. */
const webSocketOptions = {
  maxPayload: MAX_PAYLOAD_BYTES,
  perMessageDeflate: false,
  closeTimeout: 3000,
};

/** A running gateway. */
export type App = {
  url: string;
  demo: DemoAccount | undefined;
  /** What is open now; all 0 when nobody is connected. */
  counts(): { sessions: number; rooms: number };
  /** How many rooms the media workers themselves know of. */
  countRouters(): Promise<number>;
  mediaWorkerPids(): number[];
  /** Takes no more connections; those that are open stay so. */
  stopListening(): void;
  /** Takes nobody any more, and asks all to go; closes when they have, or when they may no longer stay (by default DRAIN_MS). */
  leave(withinMs?: number): Promise<void>;
  /** Ends every session before it returns, then closes every part, in the reverse of the order in which they were opened. */
  close(): Promise<void>;
};

/** What one of several gateways on the same port has beyond its settings. */
export type Shared = {
  /** Tells its log lines from the others'. */
  name: string;
  /** An operator asked for the node, which is all of them, to end. */
  drainAll(withinMs: number): void;
};

/**
 * Builds every part and hands each its settings.
 * @throws {Error} if a part cannot be opened; those before it are closed then
 */
export async function openApp(settings: Settings, shared?: Shared): Promise<App> {
  const opened = new AsyncDisposableStack();
  try {
    return await openParts(settings, opened, shared);
  } catch (fault) {
    await opened.disposeAsync();
    throw fault;
  }
}

async function openParts(
  settings: Settings,
  opened: AsyncDisposableStack,
  shared: Shared | undefined,
): Promise<App> {
  const server = await newServer(settings, shared?.name);
  const { log } = server;
  const address = redisAddressOf({ ...settings, REDIS_URL: await openRedisUrl(settings, opened) });
  const redis = opened.adopt(await Redis.connect(address, log), (part) => part.close());
  const accounts = new Accounts(redis);
  const demo = settings.DEMO_ACCOUNT
    ? await openDemoAccount(accounts, settings.DATA_DIR)
    : undefined;
  const limits = new RateLimits(redis, {
    authFailuresPerAddress: settings.AUTH_FAILURES_PER_ADDRESS,
    authFailuresPerKeyPrefix: settings.AUTH_FAILURES_PER_KEY,
    requestsPerAccount: settings.REQUESTS_PER_ACCOUNT,
  });
  const tokens = new Tokens(redis);
  const authenticator = new Authenticator(accounts, tokens, limits);
  const sessions = new Sessions();
  const drain = new Drain(sessions);
  const metrics = new Metrics();
  const accountWatch = await watchAccounts(redis, accounts, sessions, log);
  await watchArrivals(redis, sessions);
  const usage = new UsageStore(redis);
  const meter = new Meter();
  const quota = openQuota(usage, sessions);
  opened.adopt(openReporter(meter, usage, quota, sessions, log), (part) => part.close());
  for (let worker = 0; worker < settings.USAGE_WORKERS; worker += 1) {
    opened.adopt(startUsageWorker(settings, log), (part) => part.close());
  }
  const leases = opened.adopt(new CcuLeases(redis, log), (part) => part.close());
  const pool = opened.adopt(
    await MediaWorkerPool.open(
      {
        mediaWorkers: settings.MEDIA_WORKERS,
        workerBin: settings.MEDIASOUP_WORKER_BIN,
        rtcListenIp: settings.RTC_LISTEN_IP,
        rtcAnnouncedAddress: settings.RTC_ANNOUNCED_ADDRESS,
        rtcPort: settings.RTC_PORT,
      },
      log,
    ),
    (part) => part.close(),
  );
  const codecSettings = {
    bitrateBps: settings.OPUS_BITRATE_BPS,
    complexity: settings.OPUS_COMPLEXITY,
  };
  const codecs = await loadCodecs(codecSettings);
  const mixHost = opened.adopt(
    new MixHost(settings.MIX_THREADS, codecs, codecSettings, {
      onFault: (fault) => log.error({ err: fault }, 'a codec could not be opened'),
      onThreadLost: (reason) => log.error({ reason }, 'a mixing thread was lost'),
    }),
    (part) => part.close(),
  );
  const rooms = new RoomRegistry({
    pool,
    mixHost,
    meterPeer: (accountId, room, kind) => meter.enter(accountId, room, kind),
    clock: new FrameClock(),
    log,
    maxMixedSpeakers: settings.MIX_MAX_SPEAKERS,
    talkThresholdDbov: settings.TALK_THRESHOLD_DBOV,
    talkHoldMs: settings.TALK_HOLD_MS,
  });
  await server.register(fastifyWebsocket, {
    options: webSocketOptions,
    preClose: () => sessions.drain(),
  });
  await server.register(fastifyStatic, {
    root: fileURLToPath(new URL('../build/web', import.meta.url)),
  });
  registerProblems(server);
  await registerApiDocs(server);
  const rest = asRestServer(server);
  const guard = new RestGuard(authenticator, limits, settings.OPERATOR_KEY);
  registerMeRoute(rest, { guard, leases, usage });
  registerUsageRoute(rest, { guard, usage });
  registerTokenRoute(rest, { guard, tokens });
  const close = () => {
    sessions.drain();
    return opened.disposeAsync();
  };
  const leave = async (withinMs = settings.DRAIN_MS) => {
    await drain.begin(withinMs);
    await close();
  };
  registerAdminRoutes(rest, {
    guard,
    accounts,
    usage,
    drain: (withinMs = settings.DRAIN_MS) => {
      if (shared) shared.drainAll(withinMs);
      else
        leave(withinMs).catch((fault: unknown) => log.error({ err: fault }, 'not closed cleanly'));
    },
  });
  registerHealthRoutes(rest, async () => ({
    redis: await redis.isThere(),
    media_workers: pool.pids.length > 0,
    not_draining: !drain.isDraining,
  }));
  metrics.register(server, async () => ({
    sessions: sessions.size,
    rooms: rooms.size,
    peers: meter.countPeers(),
    mixThreads: mixHost.threads,
    mediaWorkers: pool.pids.length,
    mediaWorkerCpuSeconds: await pool.cpuSeconds(),
    openMinutes: await usage.countOpen(),
  }));
  registerWebSocketRoute(server, {
    authenticator,
    leases,
    usage,
    quota,
    rooms,
    redis,
    sessions,
    drain,
    accountWatch,
    metrics,
    codecs,
  });
  opened.adopt(server, (part) => part.close());
  const { HOST: host, PORT: port } = settings;
  const listening = { host, port, reusePort: shared !== undefined };
  await server.listen(listening);
  return {
    url: urlOf(server, settings),
    demo,
    counts: () => ({ sessions: sessions.size, rooms: rooms.size }),
    countRouters: () => pool.countRouters(),
    mediaWorkerPids: () => pool.pids,
    stopListening: () => server.server.close(),
    leave,
    close,
  };
}

/** What happens when an account's minutes run low, or out. */
function openQuota(usage: UsageStore, sessions: Sessions): Quota {
  return new Quota(usage, {
    onWarning: (accountId, remainingMinutes, resetsAt) => {
      const warning = {
        remaining_minutes: Math.round(remainingMinutes * 100) / 100,
        resets_at: resetsAt,
      };
      for (const session of sessions.of(accountId)) {
        session.notify({ type: 'quota_warning', ...warning });
      }
    },
    onExhausted: (accountId) => {
      for (const session of sessions.of(accountId)) session.exhaust();
    },
  });
}

function openReporter(
  meter: Meter,
  usage: UsageStore,
  quota: Quota,
  sessions: Sessions,
  log: FastifyBaseLogger,
): UsageReporter {
  return new UsageReporter(meter, usage, log, (accountId, monthMs, wallMs) => {
    const [session] = sessions.of(accountId);
    if (session) quota.update(accountId, session.account.plan, monthMs, wallMs);
  });
}

/** Requests are logged by path only: the query of `/ws` holds the API key. */
async function newServer(settings: Settings, name?: string): Promise<FastifyInstance> {
  const { LOG_LEVEL: level, TLS_CERT: cert, TLS_KEY: key, TRUST_PROXY: trustProxy } = settings;
  const https = cert === '' ? null : { cert: await readFile(cert), key: await readFile(key) };
  return Fastify({
    https,
    trustProxy: trustProxy === '' ? false : trustProxy,
    logger: {
      level,
      ...(name && { name }),
      serializers: {
        req: ({ method, url, ip }) => ({ method, path: url.split('?')[0], ip }),
      },
    },
    forceCloseConnections: true,
  });
}

/** Where a person on this machine can open it. */
function urlOf(server: FastifyInstance, { HOST: host, TLS_CERT: cert }: Settings): string {
  const scheme = cert === '' ? 'http' : 'https';
  const { port } = server.server.address() as AddressInfo;
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  return `${scheme}://${name.includes(':') ? `[${name}]` : name}:${port}`;
}
