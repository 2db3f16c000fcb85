import { randomBytes, randomUUID } from 'node:crypto';
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify, SignJWT } from 'jose';
import { PartylineError } from '../protocol/errors.ts';
import {
  FORMER_SIGNING_KEYS,
  SIGNING_KEY_CHANGES,
  SIGNING_KEYS,
  WITHDRAWN_SIGNING_KEYS,
} from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import type { RedisClock } from '../store/redis-clock.ts';
import { adviseIfUnknown, perhapsRotated } from './unknown-outcomes.ts';

const ALGORITHM = 'HS256';
/** Longest life of a token, seconds: the list of withdrawn keys is kept for as long. */
export const MAX_TOKEN_TTL_SECONDS = 86_400;
/** Longest life of a JWT, seconds: a key is kept for as long after it was replaced. */
export const LONGEST_LIFE_SECONDS = 7 * 86_400;

/** `created_ms` is missing in keys of earlier versions. */
type SigningKey = { id: string; secret: string; created_ms?: number };

/** Claims of a JWT beside those that every JWT here has. */
export type Statement = {
  /** Purpose of the JWT. A JWT that was signed for another purpose is not accepted. */
  issuer: string;
  accountId: number;
  claims: JWTPayload;
  ttlSeconds: number;
};

/** Parameters of the verification of a JWT. */
export type JwtExpectation<T> = {
  /** Name used in the error, such as "token". */
  what: string;
  issuer: string;
  /** Validates the claims. */
  parse: (claims: JWTPayload) => T;
  /** True to accept a JWT that has expired. */
  mayBeExpired?: boolean;
};

/** Signs and verifies JWTs (RFC 7519) with keys that all nodes find in Redis. */
export class SigningKeys {
  readonly #redis: Redis;
  /** Clock that decides when a JWT expires; the same on all nodes. */
  readonly #clock: Pick<RedisClock, 'wallMs'>;
  #keys: SigningKey[] = [];
  /** Number of known changes of the keys: an answer of Redis to a question from before the last one is outdated. */
  #changes = 0;
  #withdrawn: ReadonlySet<string> = new Set();

  constructor(redis: Redis, clock: Pick<RedisClock, 'wallMs'>) {
    this.#redis = redis;
    this.#clock = clock;
  }

  /** Ids of withdrawn signing keys at the last {@link reload}: all of the last day, and possibly older ones. */
  get withdrawn(): ReadonlySet<string> {
    return this.#withdrawn;
  }

  /**
   * Signs with the newest key.
   * @returns the JWT, and when it expires in ISO 8601
   * @throws {PartylineError} `overloaded`
   */
  async sign(statement: Statement): Promise<{ jwt: string; expires_at: string }> {
    const [key] = await this.#loadKeys();
    if (!key) throw new Error('there is no key to sign with');
    const issuedAt = Math.floor(this.#clock.wallMs() / 1000);
    const expiresAt = issuedAt + statement.ttlSeconds;
    const jwt = await new SignJWT(statement.claims)
      .setProtectedHeader({ alg: ALGORITHM, kid: key.id })
      .setIssuer(statement.issuer)
      .setSubject(String(statement.accountId))
      .setIssuedAt(issuedAt)
      .setExpirationTime(expiresAt)
      .sign(Buffer.from(key.secret, 'base64url'));
    return { jwt, expires_at: new Date(expiresAt * 1000).toISOString() };
  }

  /**
   * Verifies a JWT that {@link sign} made.
   * @returns the claims, the id of the key that signed them, and the seconds until they expire
   * @throws {PartylineError} `unauthorized` if the JWT is foreign, changed or expired; `overloaded`
   */
  async verify<T>(
    jwt: string,
    { what, issuer, parse, mayBeExpired = false }: JwtExpectation<T>,
  ): Promise<{ claims: T; signedBy: string; secondsLeft: number }> {
    try {
      const { kid: signedBy = '' } = decodeProtectedHeader(jwt);
      const secret = await this.#findSecret(signedBy);
      if (this.#withdrawn.has(signedBy)) {
        throw new PartylineError('unauthorized', 'The signing key has been withdrawn.');
      }
      const currentDate = new Date(this.#clock.wallMs());
      const { payload } = await jwtVerify(jwt, Buffer.from(secret, 'base64url'), {
        issuer,
        algorithms: [ALGORITHM],
        currentDate,
        clockTolerance: mayBeExpired ? Number.MAX_SAFE_INTEGER : 0,
        requiredClaims: ['exp'],
      });
      const secondsLeft = (payload.exp ?? 0) - Math.floor(currentDate.getTime() / 1000);
      return { claims: parse(payload), signedBy, secondsLeft };
    } catch (fault) {
      if (fault instanceof PartylineError && fault.code !== 'unauthorized') throw fault;
      const reason = fault instanceof errors.JWTExpired ? 'has expired' : 'is not valid';
      throw new PartylineError('unauthorized', `The ${what} ${reason}.`, { cause: fault });
    }
  }

  /**
   * Makes every process sign with a new key from now on.
   * @param isWithdrawal true if JWTs signed with earlier keys become invalid at once; otherwise they stay valid
   * until they expire
   * @throws {PartylineError} `overloaded`
   */
  async rotate(isWithdrawal: boolean): Promise<void> {
    const wallMs = this.#clock.wallMs();
    const options = {
      keys: [SIGNING_KEYS, WITHDRAWN_SIGNING_KEYS, FORMER_SIGNING_KEYS],
      arguments: [
        newKey(wallMs),
        isWithdrawal ? '1' : '0',
        String(wallMs - LONGEST_LIFE_SECONDS * 1000),
        String(MAX_TOKEN_TTL_SECONDS),
        this.#redis.channelOf(SIGNING_KEY_CHANGES),
      ],
    };
    const rotate = () => this.#redis.run((client) => client.rotateSigningKey(options));
    await adviseIfUnknown(rotate, perhapsRotated);
    this.#forgetKeys();
  }

  /**
   * Forgets the cached keys, because another process has changed them, and reads the ids of withdrawn ones.
   * @throws {PartylineError} `overloaded`
   */
  async reload(): Promise<void> {
    this.#forgetKeys();
    const ids = await this.#redis.run((client) => client.sMembers(WITHDRAWN_SIGNING_KEYS));
    this.#withdrawn = new Set(ids);
  }

  #forgetKeys(): void {
    this.#keys = [];
    this.#changes += 1;
  }

  async #findSecret(id: string): Promise<string> {
    const known = this.#keys.find((key) => key.id === id);
    const key = known ?? (await this.#loadKeys()).find((loaded) => loaded.id === id);
    if (!key) throw new PartylineError('unauthorized', 'The signing key is not known.');
    return key.secret;
  }

  /**
   * Reads the keys, the newest first. Makes the first key if there is none; if several processes do so at
   * once, all use the same.
   */
  async #loadKeys(): Promise<SigningKey[]> {
    const changes = this.#changes;
    const stored = await this.#redis.run(async (client) => {
      const keys = await client.lRange(SIGNING_KEYS, 0, -1);
      if (keys.length > 0) return keys;
      const first = newKey(this.#clock.wallMs());
      await client.addFirstSigningKey({ keys: [SIGNING_KEYS], arguments: [first] });
      return client.lRange(SIGNING_KEYS, 0, -1);
    });
    if (changes !== this.#changes) return this.#loadKeys();
    this.#keys = stored.map((key) => JSON.parse(key) as SigningKey);
    return this.#keys;
  }
}

const newKey = (createdMs: number) =>
  JSON.stringify({
    id: randomUUID(),
    secret: randomBytes(32).toString('base64url'),
    created_ms: Math.floor(createdMs),
  } satisfies SigningKey);
