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
  parts: WebhookWorkerParts,
  limits: WebhookLimits,
  timings: Timings,
): Promise<WebhookWorker> {
  const { redis, clock, log } = parts;
  const onFault = logFaults(log, 'webhook worker failed; retrying');
  const tryTo = (work: Promise<unknown> | undefined) => void work?.catch(onFault);
  const outbox = new WebhookOutbox(redis);
  const store = new WebhookStore(redis, limits.maxEvents);
  const deadNodes = new DeadNodes(store, timings.webhooks, clock.wallMs);
  const share = new AccountShare(outbox, parts, limits, timings, onFault);
  const sweep = async () => {
    await deadNodes.sweep();
    await outbox.adopt();
    await share.request();
  };

  await share.request();
  await redis.subscribe(WEBHOOK_NEWS, {
    onMessage: (accountId) => tryTo(share.onNews(Number.parseInt(accountId, 10))),
    onGap: () => tryTo(sweep()),
  });
  await redis.subscribe(ACCOUNT_CHANGES, {
    onMessage: (accountId) => tryTo(share.senderOf(Number(accountId))?.changed()),
    onGap: () => {
      for (const sender of share.senders) tryTo(sender.changed());
    },
  });
  const timers = [
    setInterval(() => tryTo(sweep()), timings.webhooks.sweepEveryMs),
    setInterval(() => tryTo(share.request()), timings.jobs.lockMs / 3),
  ];
  tryTo(sweep());
  return {
    close: async () => {
      for (const timer of timers) clearInterval(timer);
      await share.close();
    },
  };
}

/** The accounts of one worker, with a sender for each. */
class AccountShare {
  readonly #outbox: WebhookOutbox;
  readonly #clock: WebhookWorkerParts['clock'];
  readonly #senderParts: SenderParts;
  readonly #onFault: (fault: Error) => void;
  /** Id of this worker. */
  readonly #worker = randomUUID();
  readonly #workers: Liveness;
  readonly #senders = new Map<number, AccountSender>();
  /** Accounts that were released since this worker began to request its share. */
  readonly #released = new Set<number>();
  #requesting: Promise<void> | undefined;
  #isClosed = false;

  constructor(
    outbox: WebhookOutbox,
    { accounts, clock, log }: Omit<WebhookWorkerParts, 'redis'>,
    { keepMs }: WebhookLimits,
    timings: Timings,
    onFault: (fault: Error) => void,
  ) {
    this.#outbox = outbox;
    this.#clock = clock;
    this.#onFault = onFault;
    this.#workers = new Liveness(timings.jobs.lockMs);
    this.#senderParts = {
      outbox,
      accounts,
      clock,
      log,
      timings: timings.webhooks,
      keepMs,
      maxRequests: () => this.#maxRequests(),
      release: (accountId) => this.#release(accountId),
      onFault,
    };
  }

  get senders(): Iterable<AccountSender> {
    return this.#senders.values();
  }

  senderOf(accountId: number): AccountSender | undefined {
    return this.#senders.get(accountId);
  }

  /** Requests this worker's share, and starts and closes senders accordingly. */
  async request(): Promise<void> {
    // One after the other, because an outdated answer would undo the last one.
    this.#requesting ??= this.#requestNow().finally(() => {
      this.#requesting = undefined;
    });
    await this.#requesting;
  }

  /** Claims an account that has a new event, unless another worker has it. */
  async onNews(accountId: number): Promise<void> {
    const sender = this.#senders.get(accountId);
    if (sender) sender.poke();
    else if (
      this.#senders.size < MAX_ACCOUNTS &&
      (await this.#outbox.claim(this.#worker, accountId))
    )
      this.#start(accountId);
  }

  /** Closes all senders. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const accountId of this.#senders.keys()) this.#drop(accountId);
    // Otherwise the others notice by themselves.
    await this.#outbox.retire(this.#worker).catch(this.#onFault);
  }

  #maxRequests(): number {
    const share = Math.floor(MAX_REQUESTS / this.#senders.size);
    return Math.max(1, Math.min(MAX_REQUESTS_PER_ACCOUNT, share));
  }

  async #requestNow(): Promise<void> {
    // Accounts claimed or released meanwhile are missing from the answer.
    const before = [...this.#senders];
    this.#released.clear();
    const own = new Set(await this.#shareWithLiving());
    for (const [accountId, sender] of before) {
      if (!own.has(accountId) && this.#senders.get(accountId) === sender) this.#drop(accountId);
    }
    for (const accountId of own) if (!this.#released.has(accountId)) this.#start(accountId);
  }

  /** Requests this worker's share; accounts of dead workers are free at once. @returns this worker's accounts */
  async #shareWithLiving(): Promise<number[]> {
    try {
      let shared = await this.#outbox.share(this.#worker, MAX_ACCOUNTS, []);
      this.#workers.see(shared.workers, this.#clock.wallMs());
      const dead = this.#workers.dead().map(([id]) => id);
      if (dead.length > 0) shared = await this.#outbox.share(this.#worker, MAX_ACCOUNTS, dead);
      for (const id of dead) this.#workers.forget(id);
      return shared.accounts;
    } catch (fault) {
      this.#workers.restart();
      throw fault;
    }
  }

  async #release(accountId: number): Promise<void> {
    const isReleased = await this.#outbox.release(this.#worker, accountId);
    if (!isReleased) {
      this.#senders.get(accountId)?.poke();
      return;
    }
    this.#released.add(accountId);
    this.#drop(accountId);
    // Events since then were reported to the sender that has just ended.
    this.onNews(accountId).catch(this.#onFault);
  }

  #start(accountId: number): void {
    const sender = this.#senders.get(accountId);
    if (sender) sender.poke();
    else if (!this.#isClosed)
      this.#senders.set(accountId, new AccountSender(accountId, this.#senderParts));
  }

  #drop(accountId: number): void {
    this.#senders.get(accountId)?.close();
    this.#senders.delete(accountId);
  }
}
