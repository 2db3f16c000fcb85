import { Queue, Worker } from 'bullmq';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../config/timings.ts';
import type { RedisAddress } from '../src/store/client.ts';
import { BULLMQ_PREFIX, USAGE_QUEUE } from '../src/usage/usage-queue.ts';
import type { OpenMinute, UsageStore } from '../src/usage/usage-store.ts';
import { addJobs, logFaults, openConnections, startWorker, workerOptions } from './bullmq.ts';

const CONCURRENCY = 8;
const RETRY = { attempts: 10, backoff: { type: 'exponential', delay: 1000 } };

/** `sweep` looks for minutes that are over, `close` records one. */
type UsageJob = { name: 'sweep' } | ({ name: 'close' } & OpenMinute);

/** Where a worker is in its work: for tests that end it there. */
export type UsageStep = 'swept' | 'queued' | 'before close' | 'closed';

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
 * whatever was not closed is swept up again, and closing twice changes nothing.
 */
export async function openUsageWorker(
  address: RedisAddress,
  usage: UsageStore,
  log: FastifyBaseLogger,
  { keepDays, timings, onStep = () => {} }: UsageWorkerOptions,
): Promise<UsageWorker> {
  const onFault = logFaults(log, 'usage worker: a fault, tried again');
  const { connect, close: closeConnections } = openConnections(address, timings.redis, onFault);
  const queue = new Queue<UsageJob>(USAGE_QUEUE, { connection: connect(), prefix: BULLMQ_PREFIX });
  queue.on('error', onFault);
  const sweep = async () => {
    const minutes = await usage.listOpen(Date.now() - timings.usage.graceMs);
    onStep('swept');
    await addJobs(queue, minutes.map(closingOf));
    onStep('queued');
  };
  const close = async (minute: OpenMinute) => {
    onStep('before close');
    await usage.close(minute, keepDays);
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
  await queue.upsertJobScheduler(
    'sweep',
    { every: timings.usage.sweepEveryMs },
    { name: 'sweep', data: { name: 'sweep' }, opts: { removeOnComplete: true, removeOnFail: 100 } },
  );
  return {
    close: async () => {
      await worker.close();
      await queue.close();
      closeConnections();
    },
  };
}

/** A minute that waits to be closed already is not queued again; one that is done is forgotten, and may come back. */
const closingOf = ({ accountId, minute }: OpenMinute) => ({
  name: 'close',
  data: { name: 'close' as const, accountId, minute },
  opts: {
    ...RETRY,
    jobId: `close-${accountId}-${minute.replace(':', '-')}`,
    removeOnComplete: true,
    removeOnFail: true,
  },
});
