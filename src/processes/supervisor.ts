import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import type { Settings } from '../../config/settings.ts';
import type { Timings } from '../../config/timings.ts';
import { type DemoAccount, openDemoAccount } from '../accounts/demo-account.ts';
import { listenAddressOf, nameFaults } from '../listen-address.ts';
import { openLog } from '../log.ts';
import { Redis } from '../store/redis.ts';
import { VERSION } from '../version.ts';
import { openRedis, redisAddressOf } from '../store/open-redis.ts';
import { requireVersion } from '../store/redis-version.ts';
import { claimFormat } from '../store/state-format.ts';
import type { Running } from './end-on-signals.ts';
import { GatewayGroup } from './gateway-group.ts';
import { startUsageWorker } from '../children/usage-worker-process.ts';

/** A supervisor with its gateway processes: their common address, and the demo account if there is one. */
export type Supervisor = Running & { url: string; demo: DemoAccount | undefined };

/**
 * Starts `PROCESSES` gateways on the same port. The kernel distributes connections among them; one that
 * ends is started again.
 * @param abort aborts the wait for Redis
 * @throws {Error} if a gateway process cannot be started; everything that was opened is closed first
 */
export async function openSupervisor(
  settings: Settings,
  timings: Timings,
  abort: AbortSignal,
): Promise<Supervisor> {
  const opened = new AsyncDisposableStack();
  try {
    return await openParts(settings, timings, opened, abort);
  } catch (fault) {
    await opened.disposeAsync();
    throw fault;
  }
}

async function openParts(
  given: Settings,
  timings: Timings,
  opened: AsyncDisposableStack,
  abort: AbortSignal,
): Promise<Supervisor> {
  const log = openLog(given, 'supervisor');
  log.info({ version: VERSION, node: process.version }, 'supervisor starting');
  const { url: redisUrl } = await openRedis({
    settings: given,
    timings: timings.redis,
    opened,
    log,
    abort,
  });
  const settings = {
    ...given,
    REDIS_URL: redisUrl,
    PORT: await findPort(given),
  };
  const demo = await openDemo(settings, log, timings, abort);
  for (let worker = 0; worker < settings.USAGE_WORKERS; worker += 1) {
    opened.adopt(startUsageWorker(settings, log, timings), (part) => part.close());
  }
  const gateways = new GatewayGroup(settings, timings, log);
  opened.adopt(gateways, (group) => group.close());
  let leaving: Promise<void> | undefined;
  const end = async (by: string, withinMs: number) => {
    log.info({ by, withinMs, processes: settings.PROCESSES }, 'drain of all processes began');
    await gateways.leave(by, withinMs);
    log.info('drain of all processes ended');
    await opened.disposeAsync();
  };
  const leave = (by: string, withinMs = settings.DRAIN_MS) => {
    // A repeated drain request can only bring the deadline forward.
    if (leaving) gateways.hurry(by, withinMs);
    leaving ??= end(by, withinMs);
    return leaving;
  };
  gateways.onDrain = (by, withinMs) => {
    leave(by, withinMs).catch((fault: unknown) =>
      log.error({ err: fault }, 'process not closed cleanly'),
    );
  };
  const url = await gateways.start();
  return { url, demo, log, leave, close: () => opened.disposeAsync() };
}

async function openDemo(
  settings: Settings,
  log: FastifyBaseLogger,
  timings: Timings,
  abort: AbortSignal,
): Promise<DemoAccount | undefined> {
  const redis = await Redis.connect(redisAddressOf(settings), log, timings.redis, { abort });
  try {
    await requireVersion(redis);
    await claimFormat(redis, timings.nodes.deadAfterMs);
    return await openDemoAccount(redis, settings, log);
  } finally {
    await redis.close();
  }
}

/**
 * Returns the port that all processes will share, and checks that it is free: the kernel would let them share
 * it with another gateway too.
 * @throws {Error} if it is taken
 */
async function findPort({ HOST, PORT: port }: Settings): Promise<number> {
  const server = createServer().listen({ host: await listenAddressOf(HOST), port });
  await nameFaults({ HOST, PORT: port }, once(server, 'listening'));
  const found = (server.address() as AddressInfo).port;
  server.close();
  await once(server, 'close');
  return found;
}
