import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import type { Accounts } from '../accounts/accounts.ts';
import { ACCOUNT_CHANGES } from '../store/keys.ts';
import type { LeaveReason, PeerKind } from '../protocol/messages.ts';
import type { Redis } from '../store/redis.ts';
import { type Change, exhausted, joined, left, type PresentPeer } from './events.ts';
import { type Waiting, WebhookOutbox } from './webhook-outbox.ts';
import { keyOf, type NumberedChange, WebhookStore } from './webhook-store.ts';

const CHANGES_AT_ONCE = 100;
/** Maximum number of changes kept while Redis is disconnected; beyond it only the final state is told. */
const MAX_WAITING = 10_000;

export type WebhookOptions = {
  /** The calendar of events, ms since 1970. */
  nowMs: () => number;
  /** How many events of an account may wait to be sent. */
  maxEvents: number;
  /** How many changes are kept while Redis is away. */
  maxWaiting?: number;
};

/**
 * Events of this node for the webhooks of accounts. It may be told at any time, and tells in order, when Redis takes
 * it; accounts without a webhook cost Redis nothing.
 */
export class Webhooks {
  readonly #store: WebhookStore;
  readonly #outbox: WebhookOutbox;
  readonly #nowMs: () => number;
  readonly #accounts: Accounts;
  readonly #log: FastifyBaseLogger;
  readonly #maxWaiting: number;
  readonly #retryAfterMs: number;
  /** The accounts that have a webhook. */
  #listening = new Set<number>();
  /** Peers in rooms of this node, of all accounts, each with whether that has been told. */
  readonly #present = new Map<string, PresentPeer>();
  readonly #told = new Map<string, PresentPeer>();
  /** By account, until when it was told last that it has no minutes. */
  readonly #exhausted = new Map<number, string>();
  #waiting: NumberedChange[] = [];
  #lastNumber = 0;
  #dropped = 0;
  /** True if the presence of a peer must still be told, or its absence, without a change that waits. */
  #isIncomplete = false;
  #isBeatDue = false;
  /** How Redis knows this node; undefined until there is something to tell, and when it knows it no more. */
  #node: string | undefined;
  #working: Promise<void> | undefined;
  readonly #closing = new AbortController();
  readonly #timer: NodeJS.Timeout;

  private constructor(
    redis: Redis,
    accounts: Accounts,
    log: FastifyBaseLogger,
    timings: Timings['webhooks'],
    { maxWaiting, maxEvents, nowMs }: WebhookOptions,
  ) {
    this.#store = new WebhookStore(redis, maxEvents);
    this.#outbox = new WebhookOutbox(redis);
    this.#nowMs = nowMs;
    this.#accounts = accounts;
    this.#log = log;
    this.#maxWaiting = maxWaiting ?? MAX_WAITING;
    this.#retryAfterMs = timings.retryAfterMs;
    this.#timer = setInterval(() => this.#beat(), timings.beatEveryMs);
  }

  /** @throws {PartylineError} `overloaded` if Redis cannot be reached now; later it may go away and come back */
  static async open(
    redis: Redis,
    accounts: Accounts,
    log: FastifyBaseLogger,
    timings: Timings['webhooks'],
    options: WebhookOptions,
  ): Promise<Webhooks> {
    const listening = await accounts.listWithWebhook();
    const webhooks = new Webhooks(redis, accounts, log, timings, options);
    webhooks.#listening = new Set(listening);
    const reload = () => void webhooks.#reload();
    await redis.subscribe(ACCOUNT_CHANGES, { onMessage: reload, onGap: reload });
    // Changes made before the subscription.
    await webhooks.#reload();
    return webhooks;
  }

  /** A peer of this node came into a room. */
  peerJoined(accountId: number, room: string, peer: string, kind: PeerKind): void {
    const present = { accountId, room, peer, kind };
    this.#present.set(presenceKey(present), present);
    if (this.#listening.has(accountId)) this.#tell(joined(present, this.#nowMs()));
  }

  /** A peer of this node went out of a room; of one that is not known, nothing is told. */
  peerLeft(accountId: number, room: string, peer: string, reason: LeaveReason): void {
    const key = presenceKey({ accountId, room, peer });
    const present = this.#present.get(key);
    if (!present) return;
    this.#present.delete(key);
    if (this.#listening.has(accountId)) this.#tell(left(present, reason, this.#nowMs()));
  }

  /** An account has no minutes until a moment (ISO 8601); may be called for as long as it is so, and is told once. */
  quotaExhausted(accountId: number, resetsAt: string): void {
    if (!this.#listening.has(accountId) || this.#exhausted.get(accountId) === resetsAt) return;
    this.#exhausted.set(accountId, resetsAt);
    this.#tell(exhausted(accountId, resetsAt, this.#nowMs()));
  }

  /** Counts what waits to be sent, of all nodes. */
  count(): Promise<Waiting> {
    return this.#outbox.count();
  }

  /**
   * Tells what is left, if Redis is there. Peers whose places are kept here, or of whom it could not be told, are taken out
   * like those of a dead node, unless they are on another by then.
   */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#closing.abort();
    await this.#working;
    await this.#work();
    try {
      if (this.#node && this.#present.size === 0) await this.#store.retire(this.#node);
    } catch (fault) {
      this.#log.error(
        { err: fault, changes: this.#waiting.length },
        'webhooks: changes not written',
      );
    }
  }

  #tell(change: Change): void {
    if (this.#waiting.length >= this.#maxWaiting) {
      this.#dropped += this.#waiting.length;
      this.#waiting = [];
      this.#exhausted.clear();
      this.#isIncomplete = true;
      this.#log.error(
        { dropped: this.#dropped },
        'webhooks: too many changes while redis is disconnected',
      );
    }
    this.#append(change);
    this.#wake();
  }

  #append(change: Change): void {
    this.#lastNumber += 1;
    this.#waiting.push({ number: this.#lastNumber, change });
  }

  #beat(): void {
    this.#isBeatDue = this.#told.size > 0;
    if (this.#isBeatDue) this.#wake();
  }

  /** Finds out which accounts have a webhook now, and has them told who is there already. */
  async #reload(): Promise<void> {
    try {
      this.#listening = new Set(await this.#accounts.listWithWebhook());
      this.#isIncomplete = true;
      this.#wake();
    } catch (fault) {
      // When Redis is back, the gap in what was heard calls this again.
      this.#log.warn({ err: fault }, 'webhooks: changes of accounts not applied');
    }
  }

  #wake(): void {
    this.#working ??= this.#work();
  }

  /** One after the other, until nothing is left to tell. When closing, it gives up when Redis is away. */
  async #work(): Promise<void> {
    const { signal } = this.#closing;
    // Changes of the same moment are written at once.
    await Promise.resolve();
    while (this.#prepare()) {
      try {
        await this.#writeSome();
      } catch (fault) {
        this.#log.warn(
          { err: fault, changes: this.#waiting.length },
          'webhooks: changes written late',
        );
        if (signal.aborted) break;
        await delay(this.#retryAfterMs, undefined, { signal }).catch(() => {});
      }
    }
    this.#working = undefined;
  }

  /** @returns whether there is something to do */
  #prepare(): boolean {
    if (this.#waiting.length === 0 && this.#isIncomplete) {
      this.#isIncomplete = false;
      for (const change of this.#missing()) this.#append(change);
    }
    return this.#waiting.length > 0 || this.#isBeatDue;
  }

  /** Returns the changes that are missing for the told state to be the real one. */
  #missing(): Change[] {
    const isListening = ({ accountId }: PresentPeer) => this.#listening.has(accountId);
    const gone = [...this.#told].filter(
      ([key, peer]) => !this.#present.has(key) || !isListening(peer),
    );
    const come = [...this.#present].filter(
      ([key, peer]) => !this.#told.has(key) && isListening(peer),
    );
    const nowMs = this.#nowMs();
    // PeerTakeover come first, so that a room with peers in it does not end.
    return [
      ...come.map(([, peer]) => joined(peer, nowMs)),
      ...gone.map(([, peer]) => left(peer, 'closed', nowMs)),
    ];
  }

  async #writeSome(): Promise<void> {
    this.#node ??= await this.#register();
    const changes = this.#waiting.slice(0, CHANGES_AT_ONCE);
    const dropped = this.#dropped;
    const isKnown = await this.#store.tell(this.#node, changes, dropped);
    if (!isKnown) {
      this.#node = undefined;
      return;
    }
    this.#isBeatDue = false;
    this.#dropped -= dropped;
    for (const change of changes) this.#noteTold(change);
    // They may have been dropped in the meantime.
    if (this.#waiting[0] === changes[0]) this.#waiting.splice(0, changes.length);
  }

  /** Redis knows nothing of this node, or no more (it was taken for dead, or Redis was emptied): what was told, it has to know. */
  async #register(): Promise<string> {
    const node = randomUUID();
    await this.#store.register(node);
    await this.#store.tellAgain(node, [...this.#told.values()], this.#nowMs());
    return node;
  }

  #noteTold({ change }: NumberedChange): void {
    if (change.op === 'once') return;
    const { accountId, room, peer, kind } = change;
    const key = presenceKey(change);
    if (change.op === 'join') this.#told.set(key, { accountId, room, peer, kind });
    else this.#told.delete(key);
  }
}

const presenceKey = (of: Omit<PresentPeer, 'kind'>) => `${keyOf(of)}\n${of.peer}`;
