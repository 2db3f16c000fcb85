import {
  WEBHOOK_ACCOUNTS,
  WEBHOOK_COUNTS,
  WEBHOOK_DROPPED_BY_ACCOUNT,
  WEBHOOK_PREFIX,
} from '../store/keys.ts';
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

/** Query for the oldest events of rooms: of those in `names`, and of up to `rooms` after the first `skipped`, by age of that event. */
export type HeadsQuery = { names: string[]; skipped: number; rooms: number };

/** Events of all accounts that wait to be sent. */
export type Backlog = {
  rooms: number;
  events: number;
  /** Time of the oldest event, ms since 1970; undefined if none waits. */
  oldestMs: number | undefined;
  /** Events that were given up. */
  dropped: number;
};

/** The events that wait to be sent, and the assignment of accounts to usage workers: one worker at a time sends the events of an account. */
export class WebhookOutbox {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /**
   * Gives up events from before a time, then finds the next ones to send.
   * @returns `named`: oldest events of the rooms in `names` that have any; `heads`: oldest events of the rooms after the first `skipped`,
   * oldest first; `givenUp`: number of events given up
   */
  async heads(
    accountId: number,
    beforeMs: number,
    { names, skipped, rooms }: HeadsQuery,
  ): Promise<{ named: Head[]; heads: Head[]; givenUp: number }> {
    const order = String(orderAt(beforeMs));
    const numbers = [String(skipped), String(rooms)];
    const reply = await this.#run('readWebhookHeads', [
      String(accountId),
      order,
      ...numbers,
      ...names,
    ]);
    const [givenUp, count, ...fields] = reply as [number, number, ...string[]];
    const heads: Head[] = [];
    for (let at = 0; at < fields.length; at += 2) {
      heads.push({ room: fields[at]!, event: fields[at + 1]! });
    }
    return { named: heads.splice(0, count), heads, givenUp };
  }

  /**
   * Removes the oldest event of a room after it was sent or given up.
   * @returns false if it was gone already
   */
  async remove(accountId: number, { room, event }: Head, isGivenUp: boolean): Promise<boolean> {
    const given = isGivenUp ? '1' : '0';
    return (await this.#run('removeWebhookEvent', [String(accountId), room, event, given])) === 1;
  }

  /** Drops the events of an account without a webhook. */
  async clear(accountId: number): Promise<void> {
    await this.#run('clearWebhookOutbox', [String(accountId)]);
  }

  /** Takes over the events that nodes of earlier versions stored. */
  async adopt(): Promise<void> {
    await this.#run('adoptWebhookOutbox', []);
  }

  async count(): Promise<Backlog> {
    const reply = (await this.#run('countWebhookOutbox', [])) as [number, number, string, string];
    const [rooms, events, oldest, dropped] = reply;
    const oldestMs = oldest === '' ? undefined : momentOf(Number(oldest));
    return { rooms, events, oldestMs, dropped: Number(dropped) };
  }

  /** Counts the events of an account that wait to be sent. */
  async countOf(accountId: number): Promise<Omit<Backlog, 'rooms'>> {
    const id = String(accountId);
    const [events, oldest, dropped] = await this.#redis.run((client) =>
      Promise.all([
        client.hGet(WEBHOOK_COUNTS, id),
        client.zScore(WEBHOOK_ACCOUNTS, id),
        client.hGet(WEBHOOK_DROPPED_BY_ACCOUNT, id),
      ]),
    );
    const oldestMs = oldest === null ? undefined : momentOf(oldest);
    return { events: Number(events), oldestMs, dropped: Number(dropped) };
  }

  /**
   * Notes that a worker lives, and assigns it its share of the waiting accounts.
   * @param dead workers that have died
   * @returns the accounts of this worker, and for each worker how often it has called this method
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

  /** Claims an account, if it has events. @returns false if another worker has it */
  async claim(worker: string, accountId: number): Promise<boolean> {
    return (await this.#run('claimWebhookAccount', [worker, String(accountId)])) === 1;
  }

  /** Releases an account. @returns false if it has events again: the worker then keeps it */
  async release(worker: string, accountId: number): Promise<boolean> {
    return (await this.#run('releaseWebhookAccount', [worker, String(accountId)])) === 1;
  }

  /** Notes the end of a worker, so that others can take its accounts at once. */
  async retire(worker: string): Promise<void> {
    await this.#run('retireWebhookWorker', [worker]);
  }

  #run(script: OutboxScript, args: string[]): Promise<unknown> {
    const input = { keys: [WEBHOOK_PREFIX], arguments: args };
    return this.#redis.run((client) => client[script](input));
  }
}
