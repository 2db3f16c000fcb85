import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import type { Accounts } from '../accounts/accounts.ts';
import { ACCOUNT_CHANGES } from '../store/keys.ts';
import type { LeaveReason, PeerKind } from '../protocol/messages.ts';
import type { Redis } from '../store/redis.ts';
import { type Change, exhausted, joined, left, type PresentPeer } from './events.ts';
import { HeldLeaves } from './held-leaves.ts';
import { NodeNames } from './node-names.ts';
import { presenceKey, ToldPeers } from './told-peers.ts';
import { type Backlog, WebhookOutbox } from './webhook-outbox.ts';
import { type NumberedChange, WebhookStore } from './webhook-store.ts';

const CHANGES_AT_ONCE = 100;
/** Maximum number of changes kept while Redis is disconnected; beyond it only the final state is reported. */
const MAX_WAITING = 10_000;

export type WebhookOptions = {
  /** Clock of events, ms since 1970. */
  wallMs: () => number;
  /** Maximum number of events of an account that wait to be sent. */
  maxEvents: number;
  /** Time for which places of lost connections are kept, ms. */
  keepMs: number;
  /** Maximum number of changes kept while Redis is disconnected. */
  maxWaiting?: number;
};

/**
 * Events of this node for the webhooks of accounts. Changes may be noted at any time; they are written in
 * order, when Redis accepts them. Accounts without a webhook cost Redis nothing.
 */
export class Webhooks {
  readonly #store: WebhookStore;
  readonly #outbox: WebhookOutbox;
  readonly #options: WebhookOptions;
  readonly #accounts: Accounts;
  readonly #log: FastifyBaseLogger;
  readonly #maxWaiting: number;
  readonly #retryAfterMs: number;
  /** The accounts that have a webhook. */
  #listening = new Set<number>();
  /** Peers in rooms of this node, of all accounts, by {@link presenceKey}. */
  readonly #present = new Map<string, PresentPeer>();
  readonly #told = new ToldPeers();
  /** Leaves of peers that are on another node, by the same keys. */
  readonly #heldLeaves: HeldLeaves;
  /** Ends of the last reported periods without minutes, by account. */
  readonly #exhausted = new Map<number, string>();
  #waiting: NumberedChange[] = [];
  #lastNumber = 0;
  #dropped = 0;
  /** True if the presence or absence of a peer must still be reported, although no change waits. */
  #isIncomplete = false;
  #isBeatDue = false;
  /** True after a gap, in which Redis may have lost changes that it had acknowledged. */
  #isNameDue = false;
  /** Name of this node in Redis; undefined until there is a change to report, and after Redis has forgotten it. */
  #node: string | undefined;
  readonly #names = new NodeNames();
  #working: Promise<void> | undefined;
  readonly #closing = new AbortController();
  #reloading: NodeJS.Timeout | undefined;
  readonly #timer: NodeJS.Timeout;

  private constructor(
    redis: Redis,
    accounts: Accounts,
    log: FastifyBaseLogger,
    timings: Timings['webhooks'],
    options: WebhookOptions,
  ) {
    this.#store = new WebhookStore(redis, options.maxEvents);
    this.#outbox = new WebhookOutbox(redis);
    this.#options = options;
    this.#accounts = accounts;
    this.#log = log;
    this.#maxWaiting = options.maxWaiting ?? MAX_WAITING;
    this.#retryAfterMs = timings.retryAfterMs;
    this.#heldLeaves = new HeldLeaves(timings.leaveHoldMs, this.#maxWaiting, (leave) => {
      if (this.#listening.has(leave.accountId)) this.#tell(leave);
    });
    this.#timer = setInterval(() => this.#beat(), timings.beatEveryMs);
  }

  /** @throws {PartylineError} `overloaded` if Redis cannot be reached now; later it may disconnect and reconnect */
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
    const onGap = () => {
      webhooks.#isNameDue = true;
      reload();
    };
    await redis.subscribe(ACCOUNT_CHANGES, { onMessage: reload, onGap });
    // Changes made before the subscription.
    await webhooks.#reload();
    return webhooks;
  }

  /** Notes that a peer of this node entered a room. */
  peerJoined(accountId: number, room: string, peer: string, kind: PeerKind): void {
    const present = { accountId, room, peer, kind };
    const key = presenceKey(present);
    this.#heldLeaves.drop(key);
    this.#present.set(key, present);
    if (this.#listening.has(accountId)) this.#tell(joined(present, this.#options.wallMs()));
  }

  /**
   * Notes that a peer of this node left a room; unknown peers are ignored.
   * @param isElsewhere true if the peer has a connection to another node, which may not have reported it yet
   */
  peerLeft(
    accountId: number,
    room: string,
    peer: string,
    reason: LeaveReason,
    isElsewhere = false,
  ): void {
    const key = presenceKey({ accountId, room, peer });
    const present = this.#present.get(key);
    if (!present) return;
    this.#present.delete(key);
    if (!this.#listening.has(accountId)) return;
    const leave = left(present, reason, this.#options.wallMs());
    if (isElsewhere) this.#heldLeaves.hold(key, leave);
    else this.#tell(leave);
  }

  /** Notes that an account has no minutes until a time (ISO 8601); may be called repeatedly, and is reported once. */
  quotaExhausted(accountId: number, resetsAt: string): void {
    if (!this.#listening.has(accountId) || this.#exhausted.get(accountId) === resetsAt) return;
    this.#exhausted.set(accountId, resetsAt);
    this.#tell(exhausted(accountId, resetsAt, this.#options.wallMs()));
  }

  /** Counts the events of all nodes that wait to be sent. */
  count(): Promise<Backlog> {
    return this.#outbox.count();
  }

  /**
   * Writes the remaining changes, if Redis is connected. Workers remove the peers that this node still holds, also those whose leave
   * is held or could not be written: soon, or if places are kept here, when these have ended. A peer on another node stays present.
   */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    clearTimeout(this.#reloading);
    this.#closing.abort();
    this.#heldLeaves.close();
    await this.#working;
    await this.#work();
    try {
      if (this.#node && this.#present.size === 0) await this.#store.retire(this.#node);
      else if (this.#node) await this.#store.depart(this.#node, this.#options.keepMs);
    } catch (fault) {
      this.#log.error({ err: fault, changes: this.#waiting.length }, 'webhook changes not written');
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
        'webhook changes dropped: too many while redis is disconnected',
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

  /** Reads the accounts that have a webhook, and reports their present peers. */
  async #reload(): Promise<void> {
    try {
      this.#listening = new Set(await this.#accounts.listWithWebhook());
      this.#isIncomplete = true;
      this.#wake();
    } catch (fault) {
      this.#log.warn({ err: fault }, 'webhook accounts not read; retrying');
      if (this.#closing.signal.aborted) return;
      clearTimeout(this.#reloading);
      this.#reloading = setTimeout(() => void this.#reload(), this.#retryAfterMs);
    }
  }

  #wake(): void {
    this.#working ??= this.#work();
  }

  /** Writes changes one after the other, until none is left. When closing, it gives up if Redis is disconnected. */
  async #work(): Promise<void> {
    // Changes of the same turn are written together.
    await Promise.resolve();
    while (this.#prepare()) {
      try {
        await this.#writeSome();
      } catch (fault) {
        this.#log.warn(
          { err: fault, changes: this.#waiting.length },
          'webhook changes not written; retrying',
        );
        const { signal } = this.#closing;
        if (signal.aborted) break;
        await delay(this.#retryAfterMs, undefined, { signal }).catch(() => {});
      }
    }
    this.#working = undefined;
  }

  /** @returns true if there is something to write */
  #prepare(): boolean {
    if (this.#waiting.length === 0 && this.#isIncomplete) {
      this.#isIncomplete = false;
      for (const change of this.#missing()) this.#append(change);
    }
    return this.#waiting.length > 0 || this.#isBeatDue;
  }

  #missing(): Change[] {
    return this.#told.missing({
      present: this.#present,
      isLeaveHeld: (key) => this.#heldLeaves.has(key),
      isListening: ({ accountId }) => this.#listening.has(accountId),
      wallMs: this.#options.wallMs(),
    });
  }

  async #writeSome(): Promise<void> {
    if (this.#isNameDue) await this.#takeNewName();
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
    for (const { change } of changes) this.#told.note(change);
    // They may have been dropped meanwhile.
    if (this.#waiting[0] === changes[0]) this.#waiting.splice(0, changes.length);
  }

  /**
   * Takes another name, under which all present peers are reported again. The peers that Redis still has under the former
   * one are taken out: those that left, but whose leave was lost, are then reported as left.
   */
  async #takeNewName(): Promise<void> {
    this.#isNameDue = false;
    const former = this.#node;
    if (former === undefined) return;
    try {
      // A change whose answer was lost may have been written, and must not be written twice.
      const written = await this.#store.readLastNumber(former);
      while (this.#waiting[0] && this.#waiting[0].number <= written) {
        this.#told.note(this.#waiting.shift()!.change);
      }
      this.#node = await this.#register();
      await this.#store.retire(former);
    } catch (fault) {
      this.#isNameDue = true;
      throw fault;
    }
  }

  /**
   * Registers this node again, with its whole state: Redis does not know it, because it was taken for dead or
   * Redis was emptied, or what Redis knows of it may be outdated.
   */
  async #register(): Promise<string> {
    const node = this.#names.next();
    await this.#store.register(node);
    await this.#store.tellAgain(node, this.#told.list(), this.#options.wallMs());
    return node;
  }
}
