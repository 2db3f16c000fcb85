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

/** Rooms whose first events are asked for: named ones, and a number of others behind the first ones. */
export type HeadsQuery = { names: string[]; skipped: number; rooms: number };

/** Events of all accounts that wait to be sent. */
export type Backlog = {
  rooms: number;
  events: number;
  /** Time of the oldest of them, ms since 1970; undefined if none waits. */
  oldestMs: number | undefined;
  /** Events that were given up. */
  dropped: number;
};

/** The events that wait to be sent, and the assignment of accounts to workers: one worker at a time sends for an account. */
export class WebhookOutbox {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /**
   * Gives up events from before a time, then finds the next ones to send.
   * @returns the named rooms that have events, those behind the first `skipped` whose first events are the oldest, and the number of
   * events given up
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

  /** Converts the events of nodes of earlier versions. */
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
        client.hGet(`${WEBHOOK_PREFIX}counts`, id),
        client.zScore(`${WEBHOOK_PREFIX}accounts`, id),
        client.hGet(`${WEBHOOK_PREFIX}dropped_of`, id),
      ]),
    );
    const oldestMs = oldest === null ? undefined : momentOf(oldest);
    return { events: Number(events), oldestMs, dropped: Number(dropped) };
  }

  /**
   * Notes that a worker lives, and assigns it its share of the waiting accounts.
   * @param dead workers that have died
   * @returns the accounts of this worker, and all workers with the number of their calls
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

  /** Releases an account. @returns false if it has got events meanwhile, and stays the worker's */
  async release(worker: string, accountId: number): Promise<boolean> {
    return (await this.#run('releaseWebhookAccount', [worker, String(accountId)])) === 1;
  }

  /** Notes the end of a worker, whose accounts others take at once. */
  async retire(worker: string): Promise<void> {
    await this.#run('retireWebhookWorker', [worker]);
  }

  #run(script: OutboxScript, words: string[]): Promise<unknown> {
    const input = { keys: [WEBHOOK_PREFIX], arguments: words };
    return this.#redis.run((client) => client[script](input));
  }
}
