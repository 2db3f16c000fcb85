import { randomBytes, randomUUID } from 'node:crypto';
import { decodeProtectedHeader, errors, jwtVerify, SignJWT } from 'jose';
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { PartylineError } from '../protocol/errors.ts';
import { KEY_PREFIX, type Redis } from '../store/redis.ts';
import type { RedisClock } from '../store/redis-clock.ts';

const ISSUER = 'partyline';
const ALGORITHM = 'HS256';
const SIGNING_KEYS = `${KEY_PREFIX}token_keys`;
/** Ids of withdrawn signing keys, for a process that did not hear of it when it happened. */
const WITHDRAWN_KEYS = `${KEY_PREFIX}token_keys:withdrawn`;
/** The longest life of a token, seconds. */
const MAX_TTL_SECONDS = 86_400;
/** Published when keys were changed, so that every process drops those that it knows. */
export const TOKEN_KEY_CHANGES = `${KEY_PREFIX}token_key_changes`;
/** The longest token, so that a URL with it has room in the 16 KB of headers that Node takes. */
const MAX_TOKEN_CHARACTERS = 12_000;
/** The one that signs, and the one before it, whose tokens are good until they expire. */
const KEPT_KEYS = 2;

/** What a client asks for (docs/protocol.md §4). */
export const TokenRequestSchema = Type.Object(
  {
    peer: Type.String({ minLength: 1, maxLength: 256 }),
    rooms: Type.Union([
      Type.Literal('*'),
      Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { minItems: 1, maxItems: 100 }),
    ]),
    ttl_seconds: Type.Integer({ minimum: 1, maximum: MAX_TTL_SECONDS }),
    publish: Type.Boolean(),
  },
  { additionalProperties: false },
);
export type TokenRequest = Static<typeof TokenRequestSchema>;

const ClaimsSchema = Type.Object({
  /** The account. */
  sub: Type.String({ pattern: '^\\d+$' }),
  /** The API key that the token was asked for with: revoked, it takes the token with it. */
  key: Type.String(),
  peer: Type.String(),
  rooms: TokenRequestSchema.properties.rooms,
  publish: Type.Boolean(),
});
const claimsValidator = Compile(ClaimsSchema);

/** What a token allows, beside what the account may. */
export type Grant = Pick<TokenRequest, 'peer' | 'rooms' | 'publish'>;
export type TokenOwner = { accountId: number; keyId: string };

type SigningKey = { id: string; secret: string };

/** Short-lived tokens in place of API keys: JWTs (RFC 7519), signed with keys that all nodes find in Redis. */
export class Tokens {
  readonly #redis: Redis;
  /** By which tokens expire: the same on all nodes. */
  readonly #clock: Pick<RedisClock, 'wallMs'>;
  #keys: SigningKey[] = [];
  #withdrawn: ReadonlySet<string> = new Set();

  constructor(redis: Redis, clock: Pick<RedisClock, 'wallMs'>) {
    this.#redis = redis;
    this.#clock = clock;
  }

  /** Ids of signing keys that were withdrawn in the last day, as far as this process has heard. */
  get withdrawn(): ReadonlySet<string> {
    return this.#withdrawn;
  }

  /** Signs a token. @throws {PartylineError} `bad_request` if it would be too long, `overloaded` */
  async issue(
    { accountId, keyId }: TokenOwner,
    { ttl_seconds: ttlSeconds, ...grant }: TokenRequest,
  ): Promise<{ token: string; expires_at: string }> {
    const [key] = await this.#loadKeys();
    if (!key) throw new Error('there is no key to sign tokens with');
    const issuedAt = Math.floor(this.#clock.wallMs() / 1000);
    const expiresAt = issuedAt + ttlSeconds;
    const token = await new SignJWT({ ...grant, key: keyId })
      .setProtectedHeader({ alg: ALGORITHM, kid: key.id })
      .setIssuer(ISSUER)
      .setSubject(String(accountId))
      .setIssuedAt(issuedAt)
      .setExpirationTime(expiresAt)
      .sign(Buffer.from(key.secret, 'base64url'));
    if (token.length > MAX_TOKEN_CHARACTERS) {
      throw new PartylineError(
        'bad_request',
        '"rooms" is too long for a token; "*" stands for all.',
      );
    }
    return { token, expires_at: new Date(expiresAt * 1000).toISOString() };
  }

  /** @throws {PartylineError} `unauthorized` if it is none of ours, has been changed or has expired; `overloaded` */
  async verify(token: string): Promise<{ owner: TokenOwner; grant: Grant; signedBy: string }> {
    const { claims, signedBy } = await this.#readClaims(token);
    const { sub, key: keyId, peer, rooms, publish } = claims;
    const owner = { accountId: Number(sub), keyId };
    return { owner, grant: { peer, rooms, publish }, signedBy };
  }

  /**
   * Signs with a new key from now on, in every process.
   * @param isWithdrawal whether tokens of the keys before end at once; else those of the last one are good until they expire
   */
  async rotateKey(isWithdrawal: boolean): Promise<void> {
    await this.#redis.run(async (client) => {
      const stored = await client.lRange(SIGNING_KEYS, 0, -1);
      const change = client
        .multi()
        .lPush(SIGNING_KEYS, newKey())
        .lTrim(SIGNING_KEYS, 0, (isWithdrawal ? 1 : KEPT_KEYS) - 1);
      const ids = stored.map((key) => (JSON.parse(key) as SigningKey).id);
      if (isWithdrawal && ids.length > 0) {
        change.sAdd(WITHDRAWN_KEYS, ids).expire(WITHDRAWN_KEYS, MAX_TTL_SECONDS);
      }
      await change.publish(TOKEN_KEY_CHANGES, '').exec();
    });
    this.#keys = [];
  }

  /** Keys were changed by another process: those that were known are looked up again. */
  async reload(): Promise<void> {
    this.#keys = [];
    const ids = await this.#redis.run((client) => client.sMembers(WITHDRAWN_KEYS));
    this.#withdrawn = new Set(ids);
  }

  async #readClaims(
    token: string,
  ): Promise<{ claims: Static<typeof ClaimsSchema>; signedBy: string }> {
    try {
      const { kid: signedBy = '' } = decodeProtectedHeader(token);
      const secret = await this.#findSecret(signedBy);
      const currentDate = new Date(this.#clock.wallMs());
      const options = { issuer: ISSUER, algorithms: [ALGORITHM], currentDate };
      const { payload } = await jwtVerify(token, Buffer.from(secret, 'base64url'), options);
      return { claims: claimsValidator.Parse(payload), signedBy };
    } catch (fault) {
      if (fault instanceof PartylineError) throw fault;
      const reason = fault instanceof errors.JWTExpired ? 'has expired' : 'is not valid';
      throw new PartylineError('unauthorized', `The token ${reason}.`, { cause: fault });
    }
  }

  async #findSecret(id: string): Promise<string> {
    const known = this.#keys.find((key) => key.id === id);
    const key = known ?? (await this.#loadKeys()).find((loaded) => loaded.id === id);
    if (!key) throw new PartylineError('unauthorized', 'The token is not valid.');
    return key.secret;
  }

  /** The newest first; one is made if there is none, and only one, should several processes do so at once. */
  async #loadKeys(): Promise<SigningKey[]> {
    const stored = await this.#redis.run(async (client) => {
      const keys = await client.lRange(SIGNING_KEYS, 0, -1);
      if (keys.length > 0) return keys;
      const script = `if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('LPUSH', KEYS[1], ARGV[1]) end`;
      await client.eval(script, { keys: [SIGNING_KEYS], arguments: [newKey()] });
      return client.lRange(SIGNING_KEYS, 0, -1);
    });
    this.#keys = stored.map((key) => JSON.parse(key) as SigningKey);
    return this.#keys;
  }
}

const newKey = () =>
  JSON.stringify({ id: randomUUID(), secret: randomBytes(32).toString('base64url') });
