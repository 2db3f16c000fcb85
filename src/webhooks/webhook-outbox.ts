import { WEBHOOK_PREFIX } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { momentOf, orderAt } from './event-order.ts';

/** Commands that run the scripts of the outbox, whose only key is the prefix. */
type OutboxScript =
  | 'adoptWebhookOutbox'
  | 'claimWebhookAccount'
  | 'clearWebhookOutbox'
  | 'countWebhookOutbox'
  | 'readWebhookHeads'
  | 'releaseWebhookAccount'
  | 'removeWebhookEvent'
  | 'retireWebhookWorker'
  | 'shareWebhookAccounts';

/** The oldest event of a room, as JSON. */
export type Head = { room: string; event: string };

/** Events of all accounts that wait to be sent. */
export type Waiting = {
  rooms: number;
  events: number;
  /** When the oldest of them happened, ms since 1970; undefined if none waits. */
  oldestMs: number | undefined;
  /** Events that were given up. */
  dropped: number;
};

/** The events that wait to be sent, and which worker sends those of which account: one at a time does. */
export class WebhookOutbox {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /**
   * Gives up events from before a moment, then finds what is to be sent next.
   * @returns the rooms whose first events are the oldest, and how many events were given up
   */
  async heads(
    accountId: number,
    beforeMs: number,
    rooms: number,
  ): Promise<{ heads: Head[]; givenUp: number }> {
    const order = String(orderAt(beforeMs));
    const reply = await this.#run('readWebhookHeads', [String(accountId), order, String(rooms)]);
    const [givenUp, ...fields] = reply as [number, ...string[]];
    const heads: Head[] = [];
    for (let at = 0; at < fields.length; at += 2) {
      heads.push({ room: fields[at]!, event: fields[at + 1]! });
    }
    return { heads, givenUp };
  }

  /**
   * Takes the oldest event of a room away, when it is done with.
   * @returns false if it was gone already
   */
  async remove(accountId: number, { room, event }: Head, isGivenUp: boolean): Promise<boolean> {
    const given = isGivenUp ? '1' : '0';
    return (await this.#run('removeWebhookEvent', [String(accountId), room, event, given])) === 1;
  }

  /** Forgets what waits for an account that has no webhook. */
  async clear(accountId: number): Promise<void> {
    await this.#run('clearWebhookOutbox', [String(accountId)]);
  }

  /** Takes over what nodes of earlier versions have told. */
  async adopt(): Promise<void> {
    await this.#run('adoptWebhookOutbox', []);
  }

  async count(): Promise<Waiting> {
    const reply = (await this.#run('countWebhookOutbox', [])) as [number, number, string, string];
    const [rooms, events, oldest, dropped] = reply;
    const oldestMs = oldest === '' ? undefined : momentOf(Number(oldest));
    return { rooms, events, oldestMs, dropped: Number(dropped) };
  }

  /** Counts the events of an account that wait to be sent. */
  async countOf(accountId: number): Promise<Omit<Waiting, 'rooms'>> {
    const id = String(accountId);
    const [events, oldest, dropped] = await this.#redis.run((client) =>
      Promise.all([
        client.hGet(`${WEBHOOK_PREFIX}counts`, id),
        client.zScore(`${WEBHOOK_PREFIX}accounts`, id),
        client.hGet(`${WEBHOOK_PREFIX}dropped_of`, id),
      ]),
    );
    const oldestMs = oldest === null ? undefined : momentOf(oldest);
    return { events: Number(events), oldestMs, dropped: Number(dropped) };
  }

  /**
   * A worker is alive, and takes its share of the accounts that wait.
   * @param dead workers that are not alive any more
   * @returns the accounts that are its own, and all workers with how often they have called this
   */
  async share(
    worker: string,
    maxAccounts: number,
    dead: string[],
  ): Promise<{ accounts: number[]; workers: Map<string, string> }> {
    const reply = await this.#run('shareWebhookAccounts', [worker, String(maxAccounts), ...dead]);
    const [accounts, heartbeats] = reply as [string[], string[]];
    const workers = new Map<string, string>();
    for (let at = 0; at < heartbeats.length; at += 2)
      workers.set(heartbeats[at]!, heartbeats[at + 1]!);
    return { accounts: accounts.map(Number), workers };
  }

  /** Takes an account, if it has events. @returns false if another worker has it */
  async claim(worker: string, accountId: number): Promise<boolean> {
    return (await this.#run('claimWebhookAccount', [worker, String(accountId)])) === 1;
  }

  /** Gives an account back. @returns false if it has events by now, and stays the worker's */
  async release(worker: string, accountId: number): Promise<boolean> {
    return (await this.#run('releaseWebhookAccount', [worker, String(accountId)])) === 1;
  }

  /** A worker ends: others take its accounts at once. */
  async retire(worker: string): Promise<void> {
    await this.#run('retireWebhookWorker', [worker]);
  }

  #run(script: OutboxScript, words: string[]): Promise<unknown> {
    const input = { keys: [WEBHOOK_PREFIX], arguments: words };
    return this.#redis.run((client) => client[script](input));
  }
}
