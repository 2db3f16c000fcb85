import { createHash, randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Static, Type } from 'typebox';
import { PartylineError } from '../protocol/errors.ts';
import {
  ACCOUNT_CHANGES,
  ACCOUNT_PREFIX,
  accountKey,
  apiKeyHashesKey,
  ACCOUNTS_WITH_WEBHOOK,
  ALL_ACCOUNTS,
  apiKeyRecordKey,
  DEMO_ACCOUNT_ID,
  webhookSecretKey,
} from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { AccountIds } from './account-ids.ts';
import { KeyUses, noteKeyUse } from './key-uses.ts';
import {
  type ChangedAccountSchema,
  parseAccount,
  type StoredAccountSchema,
} from './stored-account.ts';
import {
  adviseIfUnknown,
  perhapsAdded,
  perhapsChanged,
  perhapsCreated,
  perhapsRevoked,
} from './unknown-outcomes.ts';

export type Account = Static<typeof StoredAccountSchema>;
export type ChangedAccount = Static<typeof ChangedAccountSchema>;
/** Fields of an account that may be changed; an empty text removes a format or the webhook URL. */
export type AccountChanges = Partial<Omit<Account, 'id' | 'created_at'>>;
/** URL to which the events of an account are sent, and the secret that signs them (`whsec_` and base64). */
export type Webhook = { url: string; secret: string };

/** API key as an operator sees it. The key itself is shown only when it is made. */
export const ApiKeySchema = Type.Object({
  id: Type.String(),
  created_at: Type.String(),
  last_used_at: Type.Optional(Type.String()),
});
export type ApiKey = Static<typeof ApiKeySchema>;
/** New API key: its id, and the key itself. */
export type NewKey = { id: string; apiKey: string };

/** Beginning of every API key. */
export const KEY_START = 'pl_';
const KEY_ID_DIGITS = 16;

/** Maximum number of accounts read in one turn of the event loop, which takes about 3 ms: audio must not wait. */
const LISTED_AT_ONCE = 100;

const hashOf = (apiKey: string) => createHash('sha256').update(apiKey).digest('hex');

/** Accounts and their API keys in Redis. A key is stored as its SHA-256 alone, which needs no salt, because a key has 256 random bits. */
export class Accounts {
  readonly #redis: Redis;
  readonly #ids: AccountIds;
  readonly #keyUses = new KeyUses();

  constructor(redis: Redis) {
    this.#redis = redis;
    this.#ids = new AccountIds(redis, ACCOUNT_PREFIX);
  }

  /**
   * Creates an account.
   * @throws {PartylineError} `bad_request` if the webhook URL is malformed, `internal_error` if it is not known whether there is an
   *   account
   */
  async create(given: Omit<Account, 'id' | 'status' | 'created_at'>): Promise<ChangedAccount> {
    const id = await this.#ids.next();
    const created = { id, status: 'active', created_at: new Date().toISOString() } as const;
    return this.#write(id, { ...given, ...created }, true);
  }

  async find(id: number): Promise<Account | undefined> {
    const fields = await this.#redis.run((client) => client.hGetAll(accountKey(id)));
    return parseAccount(fields);
  }

  /** @throws {PartylineError} `not_found` */
  async getOrThrow(id: number): Promise<Account> {
    const account = await this.find(id);
    if (!account) throw noAccount(id);
    return account;
  }

  /** Returns whether there is an account beside the demo account, which a gateway makes when it starts on an empty Redis. */
  async hasAny(): Promise<boolean> {
    const [accounts, demos] = await this.#redis.run((client) =>
      Promise.all([client.sCard(ALL_ACCOUNTS), client.exists(DEMO_ACCOUNT_ID)]),
    );
    return accounts > demos;
  }

  /** Returns all accounts, ordered by id. */
  async list(): Promise<Account[]> {
    const accounts: Account[] = [];
    for await (const part of this.listInParts()) accounts.push(...part);
    return accounts;
  }

  /** Yields all accounts in parts, ordered by id, with a turn of the event loop between two parts. */
  async *listInParts(): AsyncGenerator<Account[]> {
    const members = await this.#redis.run((client) => client.sMembers(ALL_ACCOUNTS));
    const ids = members.map(Number).toSorted((one, other) => one - other);
    for (let at = 0; at < ids.length; at += LISTED_AT_ONCE) {
      const part = ids.slice(at, at + LISTED_AT_ONCE);
      const stored = await this.#redis.run((client) =>
        Promise.all(part.map((id) => client.hGetAll(accountKey(id)))),
      );
      yield stored.map(parseAccount).filter((account) => account !== undefined);
      await nextTurn();
    }
  }

  /**
   * Changes an account; running nodes apply the change at once. Setting the webhook URL makes a new secret.
   * @throws {PartylineError} `not_found`, `bad_request`
   */
  async update(id: number, changes: AccountChanges): Promise<ChangedAccount> {
    return this.#write(id, changes, false);
  }

  /** Returns the ids of the accounts that have a webhook URL. */
  async listWithWebhook(): Promise<number[]> {
    const ids = await this.#redis.run((client) => client.sMembers(ACCOUNTS_WITH_WEBHOOK));
    return ids.map(Number);
  }

  async findWebhook(id: number): Promise<Webhook | undefined> {
    const [url, secret] = await this.#redis.run((client) =>
      client.multi().hGet(accountKey(id), 'webhook_url').get(webhookSecretKey(id)).execTyped(),
    );
    return url === null || secret === null ? undefined : { url, secret };
  }

  /**
   * Makes a new key for an account. It is not stored, so it cannot be shown again.
   * @param keep stores the key elsewhere before it becomes valid; if that fails, the key is not created
   * @throws {PartylineError} `not_found`, `bad_request` if the account is closed, `internal_error` if it is not known whether it
   *   has the key
   */
  async addKey(accountId: number, keep?: (key: NewKey) => Promise<void>): Promise<NewKey> {
    const { status } = await this.getOrThrow(accountId);
    if (status === 'closed') throw closedForGood(accountId);
    const apiKey = KEY_START + randomBytes(32).toString('base64url');
    const hash = hashOf(apiKey);
    const key = { id: hash.slice(0, KEY_ID_DIGITS), apiKey };
    await keep?.(key);
    const fields = { account: accountId, created_at: new Date().toISOString() };
    const add = () =>
      this.#redis.run((client) =>
        client
          .multi()
          .hSet(apiKeyRecordKey(hash), fields)
          .sAdd(apiKeyHashesKey(accountId), hash)
          .exec(),
      );
    await adviseIfUnknown(add, perhapsAdded(accountId, key.id));
    return key;
  }

  async listKeys(accountId: number): Promise<ApiKey[]> {
    return this.#redis.run(async (client) => {
      const hashes = await client.sMembers(apiKeyHashesKey(accountId));
      const keys = await Promise.all(
        hashes.map(async (hash) => {
          const { created_at: createdAt = '', last_used_at: lastUsedAt } = await client.hGetAll(
            apiKeyRecordKey(hash),
          );
          const used = lastUsedAt === undefined ? {} : { last_used_at: lastUsedAt };
          return { id: hash.slice(0, KEY_ID_DIGITS), created_at: createdAt, ...used };
        }),
      );
      return keys.toSorted((one, other) => one.created_at.localeCompare(other.created_at));
    });
  }

  /** Returns the ids of an account's keys. */
  async findKeyIds(accountId: number): Promise<Set<string>> {
    const hashes = await this.#redis.run((client) => client.sMembers(apiKeyHashesKey(accountId)));
    return new Set(hashes.map((hash) => hash.slice(0, KEY_ID_DIGITS)));
  }

  /**
   * Revokes a key; running nodes apply the change at once.
   * @throws {PartylineError} `not_found`
   */
  async revokeKey(accountId: number, keyId: string): Promise<void> {
    const hashes = await this.#redis.run((client) => client.sMembers(apiKeyHashesKey(accountId)));
    const hash = hashes.find((candidate) => candidate.slice(0, KEY_ID_DIGITS) === keyId);
    if (!hash) throw new PartylineError('not_found', `There is no key ${keyId}.`);
    const revoke = () =>
      this.#redis.run((client) =>
        client
          .multi()
          .del(apiKeyRecordKey(hash))
          .sRem(apiKeyHashesKey(accountId), hash)
          .publish(this.#redis.channelOf(ACCOUNT_CHANGES), String(accountId))
          .exec(),
      );
    await adviseIfUnknown(revoke, perhapsRevoked(accountId, keyId));
  }

  /** Returns the account of a key, and notes the use of the key; undefined if the key is not valid. */
  async findByKey(apiKey: string): Promise<{ account: Account; keyId: string } | undefined> {
    const hash = hashOf(apiKey);
    const fields = await this.#redis.run(async (client) => {
      const [stored, [seconds]] = await Promise.all([
        client.hGetAll(apiKeyRecordKey(hash)),
        // Clocks of machines may differ.
        client.time(),
      ]);
      const { account: id, last_used_at: lastUsedAt } = stored;
      if (id === undefined) return undefined;
      await noteKeyUse(client, hash, lastUsedAt, Number(seconds) * 1000);
      return client.hGetAll(accountKey(Number(id)));
    });
    const account = fields && parseAccount(fields);
    return account && { account, keyId: hash.slice(0, KEY_ID_DIGITS) };
  }

  /** Returns the account of a key whose token or invitation is used, and notes the use of the key; undefined if the key is not valid. */
  async findByKeyId(accountId: number, keyId: string): Promise<Account | undefined> {
    const fields = await this.#redis.run(async (client) => {
      const [stored, hashes] = await Promise.all([
        client.hGetAll(accountKey(accountId)),
        client.sMembers(apiKeyHashesKey(accountId)),
      ]);
      const hash = hashes.find((candidate) => candidate.slice(0, KEY_ID_DIGITS) === keyId);
      if (hash === undefined) return undefined;
      await this.#keyUses.note(client, hash);
      return stored;
    });
    return fields && parseAccount(fields);
  }

  async #write(id: number, fields: Partial<Account>, isNew: boolean): Promise<ChangedAccount> {
    const { webhook_url: url } = fields;
    if (url && !URL.canParse(url)) {
      throw new PartylineError('bad_request', 'webhook_url is not a URL.');
    }
    const secret = url ? `whsec_${randomBytes(32).toString('base64')}` : undefined;
    const words = Object.entries(fields).flatMap(([name, value]) => [name, String(value)]);
    const changes = this.#redis.channelOf(ACCOUNT_CHANGES);
    const options = {
      keys: [accountKey(id), webhookSecretKey(id), ACCOUNTS_WITH_WEBHOOK, ALL_ACCOUNTS],
      arguments: [String(id), isNew ? '1' : '0', secret ?? '', changes, ...words],
    };
    const write = () => this.#redis.run((client) => client.writeAccount(options));
    const unknown = isNew ? perhapsCreated(id, url) : perhapsChanged(id, url);
    const outcome = await adviseIfUnknown(write, unknown);
    if (outcome === 'missing') throw noAccount(id);
    if (outcome === 'closed') throw closedForGood(id);
    const account = parseAccount(recordOf(outcome as string[]));
    if (!account) throw noAccount(id);
    return { ...account, ...(secret ? { webhook_secret: secret } : {}) };
  }
}

/** Returns an object of names that are each followed by their value. */
const recordOf = (words: string[]): Record<string, string> =>
  Object.fromEntries(words.flatMap((word, i) => (i % 2 === 0 ? [[word, words[i + 1] ?? '']] : [])));

const noAccount = (id: number) => new PartylineError('not_found', `There is no account ${id}.`);
const closedForGood = (id: number) =>
  new PartylineError('bad_request', `Account ${id} is closed permanently.`);
