import { readSettings } from '../config/settings.ts';
import { readTimings } from '../config/timings.ts';
import { Accounts } from '../src/accounts/accounts.ts';
import { openLog } from '../src/log.ts';
import { exitNow } from '../src/processes/bounded-exit.ts';
import {
  endOnSignals,
  OWNER_ONLY_UMASK,
  parentToEndWith,
  type Running,
  describeStartupError,
} from '../src/processes/end-on-signals.ts';
import { tellParent } from '../src/processes/tell-parent.ts';
import { redisAddressOf } from '../src/store/open-redis.ts';
import { RedisClock } from '../src/store/redis-clock.ts';
import { requireVersion } from '../src/store/redis-version.ts';
import { Redis } from '../src/store/redis.ts';
import { claimFormat } from '../src/store/state-format.ts';
import { within } from '../src/store/wait-for-redis.ts';
import { VERSION } from '../src/version.ts';
import { openUsageWorker } from './usage-jobs.ts';
import { openWebhookWorker } from './webhook-jobs.ts';
import { openWorkerServer } from './worker-server.ts';

/**
 * Entry point of the usage worker, which also sends webhooks: a separate process, of which there may be any
 * number. `npm start` runs one, too.
 */

/** Tells a gateway or supervisor that has started this process that it does not hang. */
const tellAlive = () => tellParent({ type: 'alive' });

async function open(abort: AbortSignal): Promise<Running> {
  const settings = readSettings(process.env);
  const timings = readTimings(process.env);
  tellAlive();
  // The timer does not keep the process alive.
  setInterval(tellAlive, timings.processes.aliveEveryMs).unref();
  const log = openLog(settings, 'usage');
  log.info({ version: VERSION, node: process.version }, 'usage worker starting');
  const redis = await Redis.connect(redisAddressOf(settings), log, timings.redis, { abort });
  await requireVersion(redis);
  await claimFormat(redis, timings.nodes.deadAfterMs);
  const clock = await RedisClock.open(redis, log, timings.redis);
  // BullMQ would wait forever for a Redis that hangs from now on.
  const waiting = { timings: timings.redis, abort };
  const keepDays = settings.USAGE_KEEP_DAYS;
  const worker = await within(
    openUsageWorker(redis.address, { redis, clock, log }, { keepDays, timings }),
    waiting,
  );
  const accounts = new Accounts(redis);
  const limits = {
    keepMs: settings.WEBHOOK_KEEP_HOURS * 3_600_000,
    maxEvents: settings.WEBHOOK_MAX_EVENTS,
  };
  const webhooks = await openWebhookWorker({ redis, accounts, clock, log }, limits, timings);
  const port = settings.WORKER_PORT || undefined;
  const { scrapeEveryMs } = timings.load;
  const served = port && (await openWorkerServer(settings, { redis, clock, scrapeEveryMs, log }));
  log.info({ port }, 'usage worker started');
  const leave = async () => {
    // BullMQ would wait forever for a Redis that is disconnected.
    setTimeout(() => exitNow(1), timings.jobs.stopMs).unref();
    await Promise.all([worker.close(), webhooks.close()]);
    if (served) served.close();
    clock.close();
    await redis.close();
    log.info('usage worker ended');
  };
  return { log, leave, close: () => exitNow(1) };
}

process.umask(OWNER_ONLY_UMASK);
try {
  const running = await endOnSignals(open, { endsWith: parentToEndWith(process.argv) });
  // An aborted start has left connections open.
  if (!running) exitNow(Number(process.exitCode ?? 0));
} catch (fault) {
  process.stderr.write(`The usage worker could not start. ${describeStartupError(fault)}\n`);
  // Some of the opened parts cannot be closed without Redis.
  exitNow(1);
}
