import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../config/timings.ts';
import type { Accounts, Webhook } from '../src/accounts/accounts.ts';
import type { RedisClock } from '../src/store/redis-clock.ts';
import type { WebhookEvent } from '../src/webhooks/events.ts';
import { postEvent } from '../src/webhooks/post.ts';
import type { Head, HeadsQuery, WebhookOutbox } from '../src/webhooks/webhook-outbox.ts';
import { Removals } from './removals.ts';
import { workerCounters } from './worker-counters.ts';

/** Number of consecutive failed requests after which an endpoint counts as down, and is tried with one request at a time. */
const DOWN_AFTER = 5;
/**
 * Maximum number of rooms in one query (10,000 rooms block Redis for 26 ms). If more rooms have an open or failed request, rooms are read
 * page by page, and failed rooms by name.
 */
const PAGE_ROOMS = 200;
/** Maximum share by which each delay is shortened at random. */
const JITTER = 0.25;

export type SenderParts = {
  outbox: WebhookOutbox;
  accounts: Accounts;
  clock: Pick<RedisClock, 'wallMs'>;
  log: FastifyBaseLogger;
  timings: Timings['webhooks'];
  /** Age at which an event is given up, ms. */
  keepMs: number;
  /** Returns the present maximum of open requests of an account. */
  maxRequests: () => number;
  /** Called when no event waits: closes the sender, unless one has come meanwhile. */
  release: (accountId: number) => Promise<void>;
  onFault: (fault: Error) => void;
};

/** Number of consecutive failures, and time of the next attempt by `performance.now()`. */
type Failing = { failures: number; retryAtMs: number };

/**
 * Sends the events of one account: those of a room one after the other, each until it is accepted or given up; several rooms at
 * once. A room whose event fails waits longer each time, while the others continue. An endpoint that accepts nothing at all is
 * tried with one request at a time; as soon as it accepts one, all rooms continue.
 */
export class AccountSender {
  readonly #accountId: number;
  readonly #parts: SenderParts;
  /** Rooms whose first event is on its way. */
  readonly #sending = new Map<string, AbortController>();
  readonly #removals: Removals;
  /** Rooms whose first event has failed. */
  readonly #failing = new Map<string, Failing>();
  /** Failures of the endpoint. */
  #endpoint: Failing = { failures: 0, retryAtMs: 0 };
  #webhook: Webhook | undefined;
  #isWebhookKnown = false;
  #isWorking = false;
  #isPoked = false;
  #isClosed = false;
  /** Number of rooms on the pages read so far. */
  #skipped = 0;
  /** Time from which the first page may be read again, by `performance.now()`. */
  #pageAtMs = 0;
  #isPageWanted = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(accountId: number, parts: SenderParts) {
    this.#accountId = accountId;
    this.#parts = parts;
    this.#removals = new Removals(accountId, parts);
    this.poke();
  }

  /** Checks for events to send or to give up. */
  poke(): void {
    this.#isPoked = true;
    if (!this.#isWorking) void this.#run();
  }

  /** Applies a change of the account: a new endpoint is tried at once. */
  async changed(): Promise<void> {
    const before = this.#webhook;
    // If Redis does not answer now, it is asked again before anything is sent.
    this.#isWebhookKnown = false;
    try {
      this.#webhook = await this.#parts.accounts.findWebhook(this.#accountId);
    } catch (fault) {
      if (!this.#isWorking) this.poke();
      throw fault;
    }
    this.#isWebhookKnown = true;
    if (before?.url !== this.#webhook?.url || before?.secret !== this.#webhook?.secret) {
      for (const request of this.#sending.values()) request.abort();
      this.#failing.clear();
      this.#endpoint = { failures: 0, retryAtMs: 0 };
    }
    this.poke();
  }

  /** Aborts open requests, which the next worker of the account repeats. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const request of this.#sending.values()) request.abort();
  }

  get #isDown(): boolean {
    return this.#endpoint.failures >= DOWN_AFTER;
  }

  async #run(): Promise<void> {
    this.#isWorking = true;
    while (this.#isPoked && !this.#isClosed) {
      this.#isPoked = false;
      try {
        await this.#startRequests();
      } catch (fault) {
        this.#parts.onFault(fault as Error);
        this.#wakeAt(performance.now() + this.#parts.timings.retryAfterMs);
      }
    }
    this.#isWorking = false;
  }

  /** Sends as many events as may be sent at once. */
  async #startRequests(): Promise<void> {
    if (!this.#isWebhookKnown) await this.changed();
    const { outbox, clock, keepMs } = this.#parts;
    if (!this.#webhook && this.#sending.size === 0) await outbox.clear(this.#accountId);
    await this.#removals.retry();
    const nowMs = performance.now();
    const slots = this.#slots(nowMs);
    const query = this.#query(slots, nowMs);
    const { named, heads, givenUp } = await outbox.heads(
      this.#accountId,
      clock.wallMs() - keepMs,
      query,
    );
    if (givenUp > 0) this.#logGivenUp(givenUp);
    if (this.#isClosed) return;
    const isLast = heads.length < query.rooms;
    if (heads.length === 0 && query.skipped === 0 && this.#sending.size === 0) {
      this.#failing.clear();
      await this.#parts.release(this.#accountId);
      return;
    }
    const isWhole = isLast && query.skipped === 0;
    this.#forget(isWhole ? [...this.#failing.keys()] : query.names, [...named, ...heads]);
    const isPageFull = heads.filter((head) => this.#isFirstAttemptDue(head)).length >= slots;
    this.#start([...named, ...heads], slots);
    if (query.rooms === PAGE_ROOMS && !isPageFull) this.#advancePage(isLast);
    this.#wakeAt(Math.min(this.#nextRetryAt(nowMs), this.#removals.retryAtMs));
  }

  /** Forgets failures of rooms whose events were given up. @param heads first events of all of these rooms that have any */
  #forget(failing: string[], heads: Head[]): void {
    const rooms = new Set(heads.map(({ room }) => room));
    for (const room of failing) if (!rooms.has(room)) this.#failing.delete(room);
  }

  /**
   * Returns the query for the rooms to try: large enough to fill all slots, even if it begins with rooms that are busy or wait for a
   * retry.
   */
  #query(slots: number, nowMs: number): HeadsQuery {
    this.#isPageWanted = false;
    if (slots === 0) return { names: [], skipped: 0, rooms: 1 };
    const failing = [...this.#failing].filter(([room]) => !this.#sending.has(room));
    const due = failing.filter(([, { retryAtMs }]) => retryAtMs <= nowMs);
    const rooms = this.#sending.size + failing.length + this.#removals.size + slots;
    if (rooms <= PAGE_ROOMS) {
      this.#skipped = 0;
      return { names: [], skipped: 0, rooms };
    }
    const names = due
      .toSorted(([, a], [, b]) => a.failures - b.failures)
      .slice(0, slots)
      .map(([room]) => room);
    if (nowMs >= this.#pageAtMs) return { names, skipped: this.#skipped, rooms: PAGE_ROOMS };
    this.#isPageWanted = true;
    return { names, skipped: 0, rooms: 1 };
  }

  /** Continues with the next page. @param isLast true if there is none */
  #advancePage(isLast: boolean): void {
    this.#skipped = isLast ? 0 : this.#skipped + PAGE_ROOMS;
    if (isLast) this.#pageAtMs = performance.now() + this.#parts.timings.pagesEveryMs;
    else this.#isPoked = true;
  }

  /** Returns the next time at which a room becomes due. Rooms that were already due at `nowMs` are started when a request ends. */
  #nextRetryAt(nowMs: number): number {
    if (this.#isDown && this.#endpoint.retryAtMs > nowMs) return this.#endpoint.retryAtMs;
    const times = [...this.#failing]
      .filter(([room, { retryAtMs }]) => retryAtMs > nowMs && !this.#sending.has(room))
      .map(([, { retryAtMs }]) => retryAtMs);
    if (this.#isPageWanted) times.push(this.#pageAtMs);
    return times.reduce((first, atMs) => Math.min(first, atMs), Infinity);
  }

  #slots(nowMs: number): number {
    if (this.#isClosed || !this.#webhook) return 0;
    if (!this.#isDown) return Math.max(0, this.#parts.maxRequests() - this.#sending.size);
    return this.#sending.size === 0 && nowMs >= this.#endpoint.retryAtMs ? 1 : 0;
  }

  /**
   * True if an event of this room can be sent now, and has not failed before. Once such rooms fill all slots, further pages need not be
   * read.
   */
  #isFirstAttemptDue(head: Head): boolean {
    return this.#isDue(head) && !this.#failing.has(head.room);
  }

  #isDue({ room }: Head): boolean {
    const { retryAtMs = 0 } = this.#failing.get(room) ?? {};
    return !this.#sending.has(room) && !this.#removals.has(room) && retryAtMs <= performance.now();
  }

  /**
   * Sends events of the rooms that are due, those with the fewest failures first: an event that no endpoint accepts says nothing
   * about this endpoint, and many of them must not take all slots.
   */
  #start(heads: Head[], slots: number): void {
    const failuresOf = ({ room }: Head) => this.#failing.get(room)?.failures ?? 0;
    // A room that was named may be on the page, too.
    const byRoom = new Map(heads.map((head) => [head.room, head]));
    const due = [...byRoom.values()].filter((head) => this.#isDue(head));
    const chosen = due.toSorted((a, b) => failuresOf(a) - failuresOf(b)).slice(0, slots);
    for (const head of chosen) void this.#send(head, this.#webhook!);
  }

  async #send(head: Head, webhook: Webhook): Promise<void> {
    const { clock, timings, onFault } = this.#parts;
    const request = new AbortController();
    this.#sending.set(head.room, request);
    try {
      const { id } = JSON.parse(head.event) as WebhookEvent;
      const timeout = AbortSignal.timeout(timings.requestTimeoutMs);
      const signal = AbortSignal.any([request.signal, timeout]);
      await postEvent(webhook, id, head.event, clock.wallMs(), signal);
      this.#accepted(head.room);
      await this.#removals.add(head);
    } catch (fault) {
      if (!request.signal.aborted) {
        onFault(fault as Error);
        this.#failed(head.room);
      }
    } finally {
      this.#sending.delete(head.room);
      this.poke();
    }
  }

  #accepted(room: string): void {
    workerCounters.webhookRequests.taken += 1;
    if (this.#isDown) {
      this.#parts.log.info({ account: this.#accountId }, 'webhook endpoint recovered');
      // Keep the number of failures of each room: rooms whose events are always refused would
      // otherwise be tried first, and take all slots.
      for (const failing of this.#failing.values()) failing.retryAtMs = 0;
    }
    this.#failing.delete(room);
    this.#endpoint = { failures: 0, retryAtMs: 0 };
  }

  #failed(room: string): void {
    workerCounters.webhookRequests.failed += 1;
    const failures = (this.#failing.get(room)?.failures ?? 0) + 1;
    this.#failing.set(room, { failures, retryAtMs: this.#retryAt(failures) });
    const consecutiveFailures = this.#endpoint.failures + 1;
    this.#endpoint = {
      failures: consecutiveFailures,
      retryAtMs: this.#retryAt(consecutiveFailures - DOWN_AFTER + 1),
    };
    if (consecutiveFailures !== DOWN_AFTER) return;
    this.#parts.log.warn(
      { account: this.#accountId },
      'webhook endpoint failing; trying one request at a time',
    );
  }

  /** Returns the time of the next attempt after `failures` consecutive failures. */
  #retryAt(failures: number): number {
    const { firstRetryMs, longestRetryMs } = this.#parts.timings;
    const delayMs = Math.min(firstRetryMs * 2 ** Math.max(0, failures - 1), longestRetryMs);
    return performance.now() + delayMs * (1 - JITTER * Math.random());
  }

  #wakeAt(atMs: number): void {
    clearTimeout(this.#timer);
    if (this.#isClosed || !Number.isFinite(atMs)) return;
    this.#timer = setTimeout(() => this.poke(), Math.max(0, atMs - performance.now()));
  }

  #logGivenUp(events: number): void {
    const fields = { account: this.#accountId, events };
    this.#parts.log.error(fields, 'webhook events dropped: not delivered in time');
  }
}
