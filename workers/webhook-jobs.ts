import { DelayedError, type Job, Queue, Worker } from 'bullmq';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../config/timings.ts';
import type { Accounts } from '../src/accounts/accounts.ts';
import type { RedisAddress } from '../src/store/client.ts';
import type { Redis } from '../src/store/redis.ts';
import { DeadNodes } from '../src/webhooks/dead-nodes.ts';
import type { Place, WebhookEvent } from '../src/webhooks/events.ts';
import { postEvent } from '../src/webhooks/post.ts';
import { keyOf, placeOf, WEBHOOK_NEWS, WebhookStore } from '../src/webhooks/webhook-store.ts';
import { BULLMQ_PREFIX } from '../src/usage/usage-queue.ts';
import { addJobs, logFaults, openConnections, startWorker, workerOptions } from './bullmq.ts';

const QUEUE = 'webhooks';
const CONCURRENCY = 200;
/** So many requests at once to one account's webhook, so that one which hangs does not hold the others up. */
const MAX_REQUESTS_PER_ACCOUNT = 20;
/** With the first wait, doubled each time: over about 2 hours at least, 3 at most. */
const ATTEMPTS = 12;
/** Up to this share of each wait is left out, at random. */
const JITTER = 0.25;

type WebhookParts = { redis: Redis; accounts: Accounts; log: FastifyBaseLogger };

export type WebhookWorker = {
  /** Breaks off the requests in hand, which are made again by another. */
  close(): Promise<void>;
};

/**
 * Takes part in sending events to webhooks. A job sends the oldest event of a place, and there is never more than one
 * job of a place: so the events of a place are sent in order, each until it is taken or given up. An event leaves the
 * store only then, so that a worker which dies loses none.
 */
export async function openWebhookWorker(
  address: RedisAddress,
  { redis, accounts, log }: WebhookParts,
  timings: Timings,
): Promise<WebhookWorker> {
  const { firstRetryMs, requestTimeoutMs, sweepEveryMs, deadAfterMs, busyDelayMs } =
    timings.webhooks;
  const onFault = logFaults(log, 'webhooks: a fault, tried again');
  const { connect, close: closeConnections } = openConnections(address, timings.redis, onFault);
  const store = new WebhookStore(redis);
  const deadNodes = new DeadNodes(store, deadAfterMs);
  const queue = new Queue<Place>(QUEUE, { connection: connect(), prefix: BULLMQ_PREFIX });
  queue.on('error', onFault);
  const requests = new Map<number, number>();
  const closing = new AbortController();

  const enqueue = (places: Place[]) =>
    addJobs(
      queue,
      places.map((place) => sendingOf(place, firstRetryMs)),
    );
  const send = async (job: Job<Place>, token?: string) => {
    const place = job.data;
    const { accountId } = place;
    const ongoing = requests.get(accountId) ?? 0;
    if (ongoing >= MAX_REQUESTS_PER_ACCOUNT) {
      await job.moveToDelayed(Date.now() + busyDelayMs * Math.random(), token);
      throw new DelayedError();
    }
    requests.set(accountId, ongoing + 1);
    try {
      await sendHead(place, job.attemptsMade + 1 >= ATTEMPTS);
    } finally {
      const others = (requests.get(accountId) ?? 1) - 1;
      if (others > 0) requests.set(accountId, others);
      else requests.delete(accountId);
    }
  };
  const sendHead = async (place: Place, isLastAttempt: boolean) => {
    const event = await store.head(place);
    if (event === undefined) return;
    const isDropped = !(await isDone(place.accountId, event, isLastAttempt));
    const waiting = await store.remove(place, event, isDropped);
    if (waiting) await enqueue([place]);
  };
  /** Whether the event was taken, or nobody wants it any more; it is given up if not at the last attempt. */
  const isDone = async (accountId: number, event: string, isLastAttempt: boolean) => {
    const webhook = await accounts.findWebhook(accountId);
    if (!webhook) return true;
    const { id } = JSON.parse(event) as WebhookEvent;
    try {
      const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(requestTimeoutMs)]);
      await postEvent(webhook, id, event, signal);
      return true;
    } catch (fault) {
      if (!isLastAttempt || closing.signal.aborted) throw fault;
      log.error({ err: fault, account: accountId, event: id }, 'webhooks: an event was given up');
      return false;
    }
  };
  const sweep = async () => {
    await deadNodes.sweep();
    await enqueue(await store.listWaiting());
  };
  const tryTo = (work: Promise<unknown>) => void work.catch(onFault);

  const worker = new Worker<Place>(QUEUE, send, {
    connection: connect(),
    concurrency: CONCURRENCY,
    ...workerOptions(timings.jobs.lockMs),
  });
  worker.on('error', onFault);
  worker.on('failed', (job, fault) =>
    log.warn({ err: fault, account: job?.data.accountId }, 'webhooks: an event was not taken'),
  );
  await startWorker(worker, onFault);
  await redis.subscribe(WEBHOOK_NEWS, {
    onMessage: (place) => tryTo(enqueue([placeOf(place)])),
    onGap: () => tryTo(sweep()),
  });
  const timer = setInterval(() => tryTo(sweep()), sweepEveryMs);
  tryTo(sweep());
  return {
    close: async () => {
      clearInterval(timer);
      closing.abort();
      await worker.close();
      await queue.close();
      closeConnections();
    },
  };
}

/**
 * A place that waits for its job already gets no second one; one whose job is running gets another when that ends, for it
 * may not have seen what came last.
 */
const sendingOf = (place: Place, firstRetryMs: number) => ({
  name: 'send',
  data: place,
  opts: {
    deduplication: { id: keyOf(place), keepLastIfActive: true },
    attempts: ATTEMPTS,
    backoff: { type: 'exponential', delay: firstRetryMs, jitter: JITTER },
    removeOnComplete: true,
    removeOnFail: true,
  },
});
