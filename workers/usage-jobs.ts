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
/** Most by which the clock of a gateway may be ahead for its minutes to be closed as well, ms. */
const FUTURE_MS = 60_000;
/** Name of the schedule by which workers of earlier versions looked for minutes that are over. */
const FORMER_SCHEDULE = 'sweep';

/** `close` records a minute; `sweep` was left by the former schedule. */
type UsageJob = { name: 'sweep' } | ({ name: 'close' } & OpenMinute);

/** Where a worker is in its work: for tests that end it there. */
export type UsageStep = 'swept' | 'queued' | 'before close' | 'closed';

export type UsageWorkerParts = {
  redis: Redis;
  /** By which minutes are closed: this machine's own may be wrong. */
  clock: Pick<RedisClock, 'wallMs' | 'offsetMs'>;
  log: FastifyBaseLogger;
};

export type UsageWorkerOptions = {
  /** How long the records of minutes are kept. */
  keepDays: number;
  timings: Timings;
  /** Called at each step. */
  onStep?: (step: UsageStep) => void;
};

export type UsageWorker = {
  /** Lets the job in hand end. */
  close(): Promise<void>;
};

/**
 * Takes part in closing minutes: any number of workers share the work, and one that dies leaves nothing undone, for
 * whatever was not closed is found again, and closing twice changes nothing. Each looks for minutes that are over by itself,
 * by a timer of its own: a schedule in Redis would be made by the clock of one of them, and all would wait for it.
 */
export async function openUsageWorker(
  address: ServerAddress,
  { redis, clock, log }: UsageWorkerParts,
  { keepDays, timings, onStep = () => {} }: UsageWorkerOptions,
): Promise<UsageWorker> {
  const usage = new UsageStore(redis);
  const name = randomUUID();
  const onFault = logFaults(log, 'usage worker: a fault, tried again');
  const { connect, close: closeConnections } = openConnections(address, timings.redis, onFault);
  const queue = new Queue<UsageJob>(USAGE_QUEUE, { connection: connect(), prefix: BULLMQ_PREFIX });
  queue.on('error', onFault);
  const sweep = async () => {
    await tellAlive(redis, name, clock.offsetMs);
    const nowMs = clock.wallMs();
    const minutes = await usage.listOpen(nowMs - timings.usage.graceMs, nowMs + FUTURE_MS);
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
  await startWorker(worker, onFault);
  // Jobs that a worker with a wrong clock has put off may be due in days.
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

/** A minute that waits to be closed already is not queued again; one that is done, or has failed, is found again if it is open. */
const closingOf = ({ accountId, minute }: OpenMinute) => ({
  name: 'close',
  data: { name: 'close' as const, accountId, minute },
  opts: {
    jobId: `close-${accountId}-${minute.replace(':', '-')}`,
    removeOnComplete: true,
    removeOnFail: true,
  },
});
