import { randomUUID } from 'node:crypto';
import { Queue, Worker } from 'bullmq';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../config/timings.ts';
import type { ServerAddress } from '../src/store/client.ts';
import type { RedisClock } from '../src/store/redis-clock.ts';
import type { Redis } from '../src/store/redis.ts';
import { BULLMQ_PREFIX } from '../src/store/keys.ts';
import { USAGE_QUEUE } from '../src/usage/usage-queue.ts';
import { type OpenMinute, UsageStore } from '../src/usage/usage-store.ts';
import { tellAlive, tellEnded } from '../src/usage/usage-workers.ts';
import { addJobs, logFaults, openConnections, startWorker, workerOptions } from './bullmq.ts';
import { workerCounters } from './worker-counters.ts';

const CONCURRENCY = 8;
/** Maximum lead of a gateway's clock with which its minutes are still closed, ms. */
const FUTURE_MS = 60_000;
/** Name of the schedule by which workers of earlier versions looked for minutes that are over. */
const FORMER_SCHEDULE = 'sweep';

/** `close` records a minute; `sweep` was left by the former schedule. */
type UsageJob = { name: 'sweep' } | ({ name: 'close' } & OpenMinute);

/** Step of a worker's work, for tests that kill it there. */
export type UsageStep = 'swept' | 'queued' | 'before close' | 'closed';

export type UsageWorkerParts = {
  redis: Redis;
  /** Clock by which minutes are closed, because this machine's own may be wrong. */
  clock: Pick<RedisClock, 'wallMs' | 'offsetMs'>;
  log: FastifyBaseLogger;
};

export type UsageWorkerOptions = {
  /** Time for which the records of minutes are kept. */
  keepDays: number;
  timings: Timings;
  /** Called at each step. */
  onStep?: (step: UsageStep) => void;
};

export type UsageWorker = {
  /** Waits for the present job to end. */
  close(): Promise<void>;
};

/**
 * Closes minutes: any number of workers share the work, and one that dies leaves nothing undone, because
 * unclosed minutes are found again, and closing one twice changes nothing. Each worker finds past minutes by itself,
 * by its own timer: a schedule in Redis would follow the clock of one of them, and all would depend on it.
 */
export async function openUsageWorker(
  address: ServerAddress,
  { redis, clock, log }: UsageWorkerParts,
  { keepDays, timings, onStep = () => {} }: UsageWorkerOptions,
): Promise<UsageWorker> {
  const usage = new UsageStore(redis);
  const name = randomUUID();
  const onFault = logFaults(log, 'usage worker failed; retrying');
  const { connect, close: closeConnections } = openConnections(address, timings, onFault);
  const queue = new Queue<UsageJob>(USAGE_QUEUE, { connection: connect(), prefix: BULLMQ_PREFIX });
  queue.on('error', onFault);
  const sweep = async () => {
    await tellAlive(redis, name, clock.offsetMs, timings.usage.workerDeadAfterMs);
    const wallMs = clock.wallMs();
    const minutes = await usage.listOpen(wallMs - timings.usage.graceMs, wallMs + FUTURE_MS);
    onStep('swept');
    await addJobs(queue, minutes.map(closingOf));
    onStep('queued');
  };
  const close = async (minute: OpenMinute) => {
    onStep('before close');
    await usage.close(minute, keepDays);
    workerCounters.minutesClosed += 1;
    onStep('closed');
  };
  const worker = new Worker<UsageJob>(
    USAGE_QUEUE,
    async ({ data }) => (data.name === 'sweep' ? sweep() : close(data)),
    {
      connection: connect(),
      concurrency: CONCURRENCY,
      ...workerOptions(timings.jobs.lockMs),
    },
  );
  worker.on('error', onFault);
  worker.on('failed', (_job, fault) => onFault(fault));
  await startWorker(worker, timings.jobs, onFault);
  // Jobs that a worker with a wrong clock has delayed may be due in days.
  await queue.removeJobScheduler(FORMER_SCHEDULE);
  await queue.promoteJobs();
  let sweeping: Promise<void> | undefined;
  const trySweep = () => {
    sweeping ??= sweep()
      .catch(onFault)
      .finally(() => {
        sweeping = undefined;
      });
  };
  const timer = setInterval(trySweep, timings.usage.sweepEveryMs);
  trySweep();
  return {
    close: async () => {
      clearInterval(timer);
      await sweeping;
      await worker.close();
      await tellEnded(redis, name).catch(onFault);
      await queue.close();
      closeConnections();
    },
  };
}

/** Queues a minute once while it waits; one that is done or has failed is queued again if it is still open. */
const closingOf = ({ accountId, minute }: OpenMinute) => ({
  name: 'close',
  data: { name: 'close' as const, accountId, minute },
  opts: {
    jobId: `close-${accountId}-${minute.replace(':', '-')}`,
    removeOnComplete: true,
    removeOnFail: true,
  },
});
