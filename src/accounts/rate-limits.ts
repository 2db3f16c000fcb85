import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import { PartylineError } from '../protocol/errors.ts';
import { KEY_PREFIX, type Redis } from '../store/redis.ts';

const WINDOW_S = 60;
export type RateLimitSettings = {
  /** A minute, from one address. */
  authFailuresPerAddress: number;
  /** A minute, with keys that begin alike. */
  authFailuresPerKeyPrefix: number;
  /** A minute, of one account. */
  requestsPerAccount: number;
};

/** How often something may happen, over all nodes. */
export class RateLimits {
  readonly #redis: Redis;
  readonly #address: RateLimiterRedis;
  readonly #keyPrefix: RateLimiterRedis;
  readonly #account: RateLimiterRedis;

  constructor(redis: Redis, settings: RateLimitSettings) {
    this.#redis = redis;
    const limiter = (name: string, points: number) =>
      new RateLimiterRedis({
        storeClient: redis.client,
        useRedisPackage: true,
        keyPrefix: `${KEY_PREFIX}limit:${name}`,
        points,
        duration: WINDOW_S,
      });
    this.#address = limiter('address', settings.authFailuresPerAddress);
    this.#keyPrefix = limiter('key', settings.authFailuresPerKeyPrefix);
    this.#account = limiter('account', settings.requestsPerAccount);
  }

  /**
   * Counts an attempt to authenticate that failed. Only those that fail are held up: a client with a good key must not
   * suffer from one with a bad key behind the same address.
   * @param keyPart what tells this key from others, and is of no use: see {@link keyPart}
   * @throws {PartylineError} `rate_limited` if there were too many, `overloaded`
   */
  async countFailure(address: string, keyPart: string): Promise<void> {
    await this.#consume('failed attempts', this.#address, address);
    await this.#consume('failed attempts', this.#keyPrefix, keyPart);
  }

  /** Counts a request. @throws {PartylineError} `rate_limited`, `overloaded` */
  async countRequest(accountId: number): Promise<void> {
    await this.#consume('requests', this.#account, String(accountId));
  }

  /** The library rejects with a result where the limit is reached, and with an error where Redis fails. */
  async #consume(what: string, limiter: RateLimiterRedis, key: string): Promise<void> {
    const over = await this.#redis.run(async () => {
      try {
        await limiter.consume(key);
        return undefined;
      } catch (rejection) {
        if (rejection instanceof RateLimiterRes) return rejection;
        throw rejection;
      }
    });
    if (!over) return;
    const options = { retryAfterMs: over.msBeforeNext };
    throw new PartylineError('rate_limited', `Too many ${what}; try again later.`, options);
  }
}

const PART_CHARACTERS = 8;

/** The beginning of an API key. */
export const keyPart = (apiKey: string) => apiKey.slice(0, PART_CHARACTERS);

/** The end of a token: they all begin alike. */
export const tokenPart = (token: string) => token.slice(-PART_CHARACTERS);
