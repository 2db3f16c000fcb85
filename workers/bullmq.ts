import type { FastifyBaseLogger } from 'fastify';
import { createNodeRedisClient, type JobsOptions, type Worker } from 'bullmq';
import type { Timings } from '../config/timings.ts';
import { newRedisClient, type ServerAddress } from '../src/store/client.ts';
import { BULLMQ_PREFIX } from '../src/store/keys.ts';
import { workerCounters } from './worker-counters.ts';

/** Maximum number of times that a stalled job is run again: stalling is its worker's fault, not its own. */
const MAX_STALLED_COUNT = 100;

/**
 * Options of each worker, which runs after {@link startWorker}.
 * @param lockMs time without a sign of life after which another worker takes over its jobs
 */
export const workerOptions = (lockMs: number) => ({
  autorun: false,
  prefix: BULLMQ_PREFIX,
  lockDuration: lockMs,
  stalledInterval: lockMs,
  maxStalledCount: MAX_STALLED_COUNT,
});

/**
 * Connections of a worker and its queue, which wait while Redis is disconnected, and are made again after a silence; so is the one that
 * BullMQ duplicates. A command that Redis runs late changes nothing: jobs are added once, done by the owner of their lock, and repeatable.
 */
export function openConnections(
  address: ServerAddress,
  timings: Timings,
  onFault: (fault: Error) => void,
) {
  const clients: ReturnType<typeof newRedisClient>[] = [];
  return {
    connect: () => {
      const { silentMs } = timings.jobs;
      const client = newRedisClient(address, timings.redis, { isPatient: true, silentMs });
      clients.push(client);
      const connection = createNodeRedisClient(client);
      // It reconnects by itself; an unhandled 'error' event would end the process.
      connection.on('error', onFault);
      return connection;
    },
    /** Closes the connections, because BullMQ leaves open those that it has not opened itself. */
    close: () => {
      for (const client of clients) if (client.isOpen) client.destroy();
    },
  };
}

/**
 * Starts a worker that was created with `autorun: false`. If its connection breaks before it is ready, BullMQ 6.7 would
 * retry at once and endlessly, and nothing else in the process would run any more.
 * @throws {Error} if the connection breaks; the worker is closed before
 */
export async function startWorker(
  worker: Worker,
  { retryAfterMs }: Timings['jobs'],
  onFault: (fault: Error) => void,
): Promise<void> {
  try {
    await worker.waitUntilReady();
  } catch (fault) {
    await worker.close(true);
    throw fault;
  }
  worker.run().catch(onFault);
  pauseAfterErrors(worker, retryAfterMs);
}

/**
 * Lets a worker take no job for a while after each error: if Redis refuses to hand it one, BullMQ 6.7 asks again at once, thousands
 * of times a second. Jobs that it has go on; BullMQ reports none of their errors while it pauses.
 */
function pauseAfterErrors(worker: Worker, pauseMs: number): void {
  let timer: NodeJS.Timeout | undefined;
  worker.on('error', () => {
    if (timer || worker.closing) return;
    void worker.pause(true);
    timer = setTimeout(() => {
      timer = undefined;
      void worker.resume();
    }, pauseMs);
  });
  worker.once('closing', () => clearTimeout(timer));
}

/** Minimum interval between log lines for repeated faults of one kind, for example while Redis is disconnected, ms. */
const LOG_EVERY_MS = 30_000;
/** Maximum number of kinds that are distinguished. */
const MAX_KINDS = 100;

/** Logs faults; those with the same message once per interval, with their number since the last line. */
export function logFaults(log: FastifyBaseLogger, message: string): (fault: Error) => void {
  const kinds = new Map<string, { loggedAtMs: number; more: number }>();
  return (fault) => {
    workerCounters.faults += 1;
    const nowMs = performance.now();
    const kind = kinds.get(fault.message);
    if (kind && nowMs - kind.loggedAtMs < LOG_EVERY_MS) {
      kind.more += 1;
      return;
    }
    log.warn({ err: fault, ...(kind?.more && { more: kind.more }) }, message);
    if (kinds.size >= MAX_KINDS) kinds.clear();
    kinds.set(fault.message, { loggedAtMs: nowMs, more: 0 });
  };
}

/** Adds jobs one by one: `addBulk` of BullMQ 6.7 adds nothing after a restart of Redis, which has lost BullMQ's scripts. */
export async function addJobs<T>(
  queue: { add(name: string, data: T, opts: JobsOptions): Promise<unknown> },
  jobs: { name: string; data: T; opts: JobsOptions }[],
): Promise<void> {
  await Promise.all(jobs.map(({ name, data, opts }) => queue.add(name, data, opts)));
}
