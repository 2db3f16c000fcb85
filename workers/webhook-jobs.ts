import { randomUUID } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../config/timings.ts';
import type { Accounts } from '../src/accounts/accounts.ts';
import { ACCOUNT_CHANGES, WEBHOOK_NEWS } from '../src/store/keys.ts';
import { Liveness } from '../src/store/liveness.ts';
import type { RedisClock } from '../src/store/redis-clock.ts';
import type { Redis } from '../src/store/redis.ts';
import { DeadNodes } from '../src/webhooks/dead-nodes.ts';
import { WebhookOutbox } from '../src/webhooks/webhook-outbox.ts';
import { WebhookStore } from '../src/webhooks/webhook-store.ts';
import { AccountSender, type SenderParts } from './account-sender.ts';
import { logFaults } from './bullmq.ts';

/** Maximum number of requests at once, of this worker and to one account's webhook. */
const MAX_REQUESTS = 400;
const MAX_REQUESTS_PER_ACCOUNT = 20;
/** Maximum number of accounts of this worker. Accounts whose endpoints are down cost one request each at intervals. */
const MAX_ACCOUNTS = 2000;

export type WebhookWorkerParts = {
  redis: Redis;
  accounts: Accounts;
  clock: Pick<RedisClock, 'wallMs'>;
  log: FastifyBaseLogger;
};

/** Limits of waiting events: see WEBHOOK_KEEP_HOURS and WEBHOOK_MAX_EVENTS. */
export type WebhookLimits = { keepMs: number; maxEvents: number };

export type WebhookWorker = {
  /** Aborts open requests, which another worker repeats. */
  close(): Promise<void>;
};

/**
 * Sends events to webhooks. Workers share the accounts that have events: each belongs to one worker, until
 * no event waits or the worker is dead. An event leaves the store only after it was accepted or given up, so a worker that dies
 * loses none.
 */
export async function openWebhookWorker(
  { redis, accounts, clock, log }: WebhookWorkerParts,
  { keepMs, maxEvents }: WebhookLimits,
  timings: Timings,
): Promise<WebhookWorker> {
  const onFault = logFaults(log, 'webhook worker failed; retrying');
  const outbox = new WebhookOutbox(redis);
  const store = new WebhookStore(redis, maxEvents);
  const deadNodes = new DeadNodes(store, timings.webhooks.deadAfterMs, clock.wallMs);
  const worker = randomUUID();
  const workers = new Liveness(timings.jobs.lockMs);
  const senders = new Map<number, AccountSender>();
  /** Accounts that were released since this worker began to request its share. */
  const released = new Set<number>();
  let isClosed = false;

  const parts: SenderParts = {
    outbox,
    accounts,
    clock,
    log,
    timings: timings.webhooks,
    keepMs,
    maxRequests: () =>
      Math.max(1, Math.min(MAX_REQUESTS_PER_ACCOUNT, Math.floor(MAX_REQUESTS / senders.size))),
    release: async (accountId) => {
      const isReleased = await outbox.release(worker, accountId);
      if (isReleased) {
        released.add(accountId);
        drop(accountId);
        // Events since then were reported to the sender that has just ended.
        tryTo(onNews(accountId));
      } else {
        senders.get(accountId)?.poke();
      }
    },
    onFault,
  };
  const drop = (accountId: number) => {
    senders.get(accountId)?.close();
    senders.delete(accountId);
  };
  const start = (accountId: number) => {
    const sender = senders.get(accountId);
    if (sender) sender.poke();
    else if (!isClosed) senders.set(accountId, new AccountSender(accountId, parts));
  };
  const share = async () => {
    // One after the other, because an outdated answer would undo the last one.
    sharing ??= shareNow().finally(() => {
      sharing = undefined;
    });
    await sharing;
  };
  let sharing: Promise<void> | undefined;
  /** Requests this worker's share; accounts of dead workers are free at once. @returns this worker's accounts */
  const shareWithLiving = async () => {
    try {
      let shared = await outbox.share(worker, MAX_ACCOUNTS, []);
      workers.see(shared.workers, clock.wallMs());
      const dead = workers.dead().map(([id]) => id);
      if (dead.length > 0) shared = await outbox.share(worker, MAX_ACCOUNTS, dead);
      for (const id of dead) workers.forget(id);
      return shared.accounts;
    } catch (fault) {
      workers.restart();
      throw fault;
    }
  };
  const shareNow = async () => {
    // Accounts claimed or released meanwhile are missing from the answer.
    const before = [...senders];
    released.clear();
    const own = new Set(await shareWithLiving());
    for (const [accountId, sender] of before) {
      if (!own.has(accountId) && senders.get(accountId) === sender) drop(accountId);
    }
    for (const accountId of own) if (!released.has(accountId)) start(accountId);
  };
  const sweep = async () => {
    await deadNodes.sweep();
    await outbox.adopt();
    await share();
  };
  const onNews = async (accountId: number) => {
    const sender = senders.get(accountId);
    if (sender) sender.poke();
    else if (senders.size < MAX_ACCOUNTS && (await outbox.claim(worker, accountId)))
      start(accountId);
  };
  const tryTo = (work: Promise<unknown> | undefined) => void work?.catch(onFault);

  await share();
  await redis.subscribe(WEBHOOK_NEWS, {
    onMessage: (accountId) => tryTo(onNews(Number.parseInt(accountId, 10))),
    onGap: () => tryTo(sweep()),
  });
  await redis.subscribe(ACCOUNT_CHANGES, {
    onMessage: (accountId) => tryTo(senders.get(Number(accountId))?.changed()),
    onGap: () => {
      for (const sender of senders.values()) tryTo(sender.changed());
    },
  });
  const timers = [
    setInterval(() => tryTo(sweep()), timings.webhooks.sweepEveryMs),
    setInterval(() => tryTo(share()), timings.jobs.lockMs / 3),
  ];
  tryTo(sweep());
  return {
    close: async () => {
      isClosed = true;
      for (const timer of timers) clearInterval(timer);
      for (const accountId of senders.keys()) drop(accountId);
      // Otherwise the others notice by themselves.
      await outbox.retire(worker).catch(onFault);
    },
  };
}
