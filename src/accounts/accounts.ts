import { createHash, randomBytes } from 'node:crypto';
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { PartylineError } from '../protocol/errors.ts';
import { KEY_PREFIX, type Redis } from '../store/redis.ts';

/** What clients see of an account (docs/protocol.md §1). */
export const AccountSchema = Type.Object({
  id: Type.Integer(),
  name: Type.String(),
  email: Type.String(),
  plan: Type.Enum(['free', 'starter', 'pro']),
  status: Type.Enum(['active', 'suspended', 'closed']),
});

const StoredAccountSchema = Type.Object({
  ...AccountSchema.properties,
  /** What its peers hear who never speak and do not say in what; Opus, if not set. */
  default_audio: Type.Optional(Type.String()),
  /** What its peers send who do not say what, where the operator knows. */
  pinned_audio: Type.Optional(Type.String()),
});

export type Account = Static<typeof StoredAccountSchema>;

const validator = Compile(StoredAccountSchema);
const accountKey = (id: number) => `${KEY_PREFIX}account:${id}`;
const apiKeyKey = (hash: string) => `${KEY_PREFIX}api_key:${hash}`;
const hashOf = (apiKey: string) => createHash('sha256').update(apiKey).digest('hex');

/** Accounts and their API keys, in Redis. A key is kept only as its SHA-256: 256 random bits need no salt. */
export class Accounts {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  async create(account: Omit<Account, 'id' | 'status'>): Promise<Account> {
    return this.#redis.run(async (client) => {
      const id = await client.incr(`${KEY_PREFIX}account:last_id`);
      const status = 'active';
      await client.hSet(accountKey(id), { ...account, id, status });
      return { ...account, id, status };
    });
  }

  /** Makes a new key for an account; this is the only time that it can be seen. */
  async addKey(accountId: number): Promise<string> {
    const apiKey = `pl_${randomBytes(32).toString('base64url')}`;
    await this.#redis.run((client) => client.set(apiKeyKey(hashOf(apiKey)), accountId));
    return apiKey;
  }

  /**
   * The account to which a key gives access.
   * @throws {PartylineError} `unauthorized` for an unknown key, `forbidden` if the account is not active, `overloaded`
   */
  async authenticate(apiKey: string): Promise<Account> {
    const account = await this.findByKey(apiKey);
    if (!account) throw new PartylineError('unauthorized', 'The API key is not known.');
    if (account.status !== 'active') {
      throw new PartylineError('forbidden', `The account is ${account.status}.`);
    }
    return account;
  }

  async findByKey(apiKey: string): Promise<Account | undefined> {
    const fields = await this.#redis.run(async (client) => {
      const id = await client.get(apiKeyKey(hashOf(apiKey)));
      return id === null ? undefined : { ...(await client.hGetAll(accountKey(Number(id)))), id };
    });
    return fields && validator.Parse({ ...fields, id: Number(fields.id) });
  }
}
