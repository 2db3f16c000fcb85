import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { type Authenticator, bearerOf, type Credentials } from '../accounts/authenticator.ts';
import type { RateLimits } from '../accounts/rate-limits.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { Sender } from './request-log.ts';

/** Authenticates REST requests. Its hooks run before the body is read, so that clients without a key are refused at the least cost. */
export class RestGuard {
  readonly #authenticator: Authenticator;
  readonly #limits: RateLimits;
  readonly #operatorKey: string;
  readonly #onKnown: (request: FastifyRequest, sender: Sender) => void;
  readonly #credentials = new WeakMap<FastifyRequest, Credentials>();

  /**
   * @param operatorKey if empty, no request is an operator's
   * @param onKnown called for each authenticated request of a client or the operator
   */
  constructor(
    authenticator: Authenticator,
    limits: RateLimits,
    operatorKey: string,
    onKnown: (request: FastifyRequest, sender: Sender) => void,
  ) {
    this.#authenticator = authenticator;
    this.#limits = limits;
    this.#operatorKey = operatorKey;
    this.#onKnown = onKnown;
  }

  /**
   * onRequest hook: passes only requests with `Authorization: Bearer <API key>` (RFC 6750 §2.1).
   * @throws {PartylineError} `unauthorized`, `rate_limited`, `overloaded`
   */
  readonly client = async (request: FastifyRequest): Promise<void> => {
    const apiKey = bearerOf(request.headers.authorization);
    if (!apiKey) {
      throw new PartylineError('unauthorized', 'Send "Authorization: Bearer <API key>".');
    }
    this.#limits.checkSecret(apiKey);
    const credentials = await this.#authenticator.byKey(apiKey, request.ip);
    // Before the request is logged, as refused ones are summed up.
    await this.#limits.countRequest(credentials.account.id, apiKey);
    this.#onKnown(request, credentials.account.id);
    this.#credentials.set(request, credentials);
  };

  /** Returns the credentials of a request that has passed {@link client}. */
  credentialsOf(request: FastifyRequest): Credentials {
    const credentials = this.#credentials.get(request);
    if (!credentials) throw new Error('the route has no guard');
    return credentials;
  }

  /**
   * onRequest hook: passes only the operator's requests. The limit of failed attempts is checked first:
   * unlike an API key, the operator's key may be a guessable word.
   * @throws {PartylineError} `unauthorized`, `forbidden`, `rate_limited`, `overloaded`
   */
  readonly operator = async (request: FastifyRequest): Promise<void> => {
    if (this.#operatorKey === '') {
      throw new PartylineError('forbidden', 'This gateway has no OPERATOR_KEY.');
    }
    const key = bearerOf(request.headers.authorization);
    if (!key) {
      throw new PartylineError('unauthorized', 'Send "Authorization: Bearer <operator key>".');
    }
    await this.#limits.checkOperator(request.ip);
    if (timingSafeEqual(digestOf(key), digestOf(this.#operatorKey))) {
      this.#onKnown(request, 'operator');
      return;
    }
    await this.#limits.countOperatorFailure(request.ip);
    throw new PartylineError('unauthorized', 'This is not the operator key.');
  };
}

const digestOf = (text: string) => createHash('sha256').update(text).digest();
