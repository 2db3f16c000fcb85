import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import { networkOf } from '../network-of.ts';
import { PartylineError } from '../protocol/errors.ts';
import { limitPrefix } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { KEY_START } from './accounts.ts';
import { BlockedSecrets } from './blocked-secrets.ts';

const WINDOW_S = 60;
/** Multiple of the permitted failures from which an address is refused before its keys are looked up. */
const FAR = 10;
/** Limiter whose types lack a method: the time for which this process refuses a key without asking Redis, ms; 0 if it asks. */
type Limiter = RateLimiterRedis & { getInMemoryBlockMsBeforeExpire(storeKey: string): number };

export type RateLimitSettings = {
  /** Maximum failures per minute from one address. */
  authFailuresPerAddress: number;
  /** Maximum failures per minute with keys that begin alike, or tokens and invitations that end alike. */
  authFailuresPerKeyPrefix: number;
  /** Maximum requests per minute of one account. */
  requestsPerAccount: number;
};

/**
 * Rate limits that all nodes share. A counter over its limit is refused by this process, without asking
 * Redis again, until the window ends. Addresses are counted by {@link networkOf}.
 */
export class RateLimits {
  readonly #redis: Redis;
  /** Failures of this process, by address. */
  readonly #far: RateLimiterMemory;
  readonly #operator: RateLimiterMemory;
  readonly #address: Limiter;
  readonly #keyPrefix: Limiter;
  readonly #account: Limiter;
  readonly #redemptions: Limiter;
  /** Keys, tokens and invitations of accounts over their limit. */
  readonly #blocked = new BlockedSecrets();

  constructor(redis: Redis, settings: RateLimitSettings) {
    this.#redis = redis;
    const limiter = (name: string, points: number) =>
      new RateLimiterRedis({
        storeClient: redis.client,
        useRedisPackage: true,
        keyPrefix: limitPrefix(name),
        points,
        duration: WINDOW_S,
        inMemoryBlockOnConsumed: points + 1,
      }) as Limiter;
    this.#address = limiter('address', settings.authFailuresPerAddress);
    this.#keyPrefix = limiter('key', settings.authFailuresPerKeyPrefix);
    this.#account = limiter('account', settings.requestsPerAccount);
    this.#redemptions = limiter('redemptions', settings.requestsPerAccount);
    const points = settings.authFailuresPerAddress;
    this.#far = new RateLimiterMemory({ points: points * FAR, duration: WINDOW_S });
    this.#operator = new RateLimiterMemory({ points, duration: WINDOW_S });
  }

  /** @throws {PartylineError} `rate_limited` if failed attempts from an address exceed the limit many times over */
  checkAddress(address: string): Promise<void> {
    return checkLocal(this.#far, networkOf(address));
  }

  /**
   * Counts an attempt to authenticate that failed. Only failed attempts are limited: a client with a valid key must not
   * suffer from one with an invalid key behind the same address.
   * @param part {@link keyPart} of the key, or {@link tokenPart} of the token or invitation
   * @throws {PartylineError} `rate_limited` if there were too many, `overloaded`
   */
  async countFailure(address: string, part: string | undefined): Promise<void> {
    const network = networkOf(address);
    await this.#far.penalty(network);
    await this.#consume('failed attempts', this.#address, network);
    if (part !== undefined) await this.#consume('failed attempts', this.#keyPrefix, part);
  }

  /**
   * Checks before a key is compared with the operator's. Failures are counted in this process alone: the
   * operator must get in while Redis is disconnected, and nothing of a mistyped key may be stored.
   * @throws {PartylineError} `rate_limited`
   */
  checkOperator(address: string): Promise<void> {
    return checkLocal(this.#operator, networkOf(address));
  }

  /** Counts an attempt with a wrong operator key. */
  async countOperatorFailure(address: string): Promise<void> {
    await this.#operator.penalty(networkOf(address));
  }

  /**
   * Checks, before a key, token or invitation is looked up, that its account is not known to be over its limit.
   * @throws {PartylineError} `rate_limited`
   */
  checkSecret(secret: string): void {
    const leftMs = this.#blocked.leftMs(secret, performance.now());
    if (leftMs > 0) throw tooMany('requests', leftMs);
  }

  /**
   * Counts a request.
   * @param secret key or token by which it was authenticated
   * @throws {PartylineError} `rate_limited`, `overloaded`
   */
  async countRequest(accountId: number, secret: string): Promise<void> {
    await this.#consume('requests', this.#account, String(accountId), secret);
  }

  /**
   * Counts an invitation that is exchanged for a token, or refused because its account is suspended. Anyone with the link can
   * do that, so it is counted apart from requests that carry a key.
   * @throws {PartylineError} `rate_limited`, `overloaded`
   */
  async countRedemption(accountId: number, invite: string): Promise<void> {
    await this.#consume('redeemed invitations', this.#redemptions, String(accountId), invite);
  }

  /**
   * Counts one.
   * @param secret secret that is blocked while the limit is reached
   */
  async #consume(what: string, limiter: Limiter, key: string, secret?: string): Promise<void> {
    // Without a command: the store takes each result for an answer of Redis.
    const blockedMs = limiter.getInMemoryBlockMsBeforeExpire(limiter.getKey(key));
    const leftMs = blockedMs > 0 ? blockedMs : await this.#consumeInRedis(limiter, key);
    if (leftMs === undefined) return;
    const nowMs = performance.now();
    if (secret !== undefined) this.#blocked.block(secret, nowMs + leftMs, nowMs);
    throw tooMany(what, leftMs);
  }

  /** Returns the time until the next one is permitted, ms; undefined if this one is. @throws {PartylineError} `overloaded` */
  #consumeInRedis(limiter: Limiter, key: string): Promise<number | undefined> {
    return this.#redis.run(async () => {
      try {
        await limiter.consume(key);
        return undefined;
      } catch (rejection) {
        if (rejection instanceof RateLimiterRes) return rejection.msBeforeNext;
        throw rejection;
      }
    });
  }
}

async function checkLocal(limiter: RateLimiterMemory, key: string): Promise<void> {
  const state = await limiter.get(key);
  if (state && state.consumedPoints >= limiter.points)
    throw tooMany('failed attempts', state.msBeforeNext);
}

const tooMany = (what: string, retryAfterMs: number) =>
  new PartylineError('rate_limited', `Too many ${what}; try again later.`, {
    retryAfterMs: Math.ceil(retryAfterMs),
  });

const PART_CHARACTERS = 8;

/** Form of a JSON Web Token: three parts in Base64, of which the first begins with `{"`. */
const JWT = /^eyJ[\w-]*\.[\w-]*\.[\w-]*$/;

/**
 * The beginning of an API key, which distinguishes it from others and cannot be used to authenticate; undefined for other
 * secrets, such as the operator key: they can be no API key, and nothing of them may be stored.
 */
export const keyPart = (apiKey: string) =>
  apiKey.startsWith(KEY_START) ? apiKey.slice(0, PART_CHARACTERS) : undefined;

/** The end of a token or an invitation, because all of them begin alike; undefined for other secrets, as {@link keyPart}. */
export const tokenPart = (token: string) =>
  JWT.test(token) ? token.slice(-PART_CHARACTERS) : undefined;
