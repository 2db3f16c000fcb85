import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { type Authenticator, bearerOf, type Credentials } from '../accounts/authenticator.ts';
import { keyPart, type RateLimits } from '../accounts/rate-limits.ts';
import { PartylineError } from '../protocol/errors.ts';

/** Whose a REST request is. */
export class RestGuard {
  readonly #authenticator: Authenticator;
  readonly #limits: RateLimits;
  readonly #operatorKey: string;

  /** @param operatorKey empty: nobody is an operator */
  constructor(authenticator: Authenticator, limits: RateLimits, operatorKey: string) {
    this.#authenticator = authenticator;
    this.#limits = limits;
    this.#operatorKey = operatorKey;
  }

  /**
   * Who sent `Authorization: Bearer <API key>` (RFC 6750 §2.1).
   * @throws {PartylineError} `unauthorized`, `rate_limited`, `overloaded`
   */
  async client(request: FastifyRequest): Promise<Credentials> {
    const apiKey = bearerOf(request.headers.authorization);
    if (!apiKey) {
      throw new PartylineError('unauthorized', 'Send "Authorization: Bearer <API key>".');
    }
    const credentials = await this.#authenticator.byKey(apiKey, request.ip);
    await this.#limits.countRequest(credentials.account.id);
    return credentials;
  }

  /**
   * Lets only the operator pass.
   * @throws {PartylineError} `unauthorized`, `forbidden`, `rate_limited`, `overloaded`
   */
  async operator(request: FastifyRequest): Promise<void> {
    if (this.#operatorKey === '') {
      throw new PartylineError('forbidden', 'This gateway has no OPERATOR_KEY.');
    }
    const key = bearerOf(request.headers.authorization);
    if (!key) {
      throw new PartylineError('unauthorized', 'Send "Authorization: Bearer <operator key>".');
    }
    if (timingSafeEqual(digestOf(key), digestOf(this.#operatorKey))) return;
    await this.#limits.countFailure(request.ip, keyPart(key));
    throw new PartylineError('unauthorized', 'That is not the operator key.');
  }
}

const digestOf = (text: string) => createHash('sha256').update(text).digest();
