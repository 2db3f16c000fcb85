import type { FastifyRequest } from 'fastify';
import {
  type Authenticator,
  bearerOf,
  type Credentials,
  requireActive,
} from '../accounts/authenticator.ts';
import type { ConnectionBudget } from '../accounts/connection-budget.ts';
import type { RateLimits } from '../accounts/rate-limits.ts';
import { PartylineError } from '../protocol/errors.ts';

export type WhipGuardParts = {
  authenticator: Authenticator;
  /** A POST counts as a connection. */
  connections: ConnectionBudget;
  /** Everything else counts as a request. */
  limits: RateLimits;
  /** Returns the number of account changes received. */
  changes: () => number;
  onKnown: (request: FastifyRequest, accountId: number) => void;
};

/** The sender of a request, and the number of account changes received before it was looked up. */
export type Known = { credentials: Credentials; changesBefore: number };

/** Budget of a request: its checks come before the sender is looked up, and throw if it is known to be over the budget. */
type Budget = {
  checkKey: (apiKey: string) => void;
  checkAccount: (accountId: number) => void;
  /** @param key key that the client sent, if it sent one */
  charge: (credentials: Credentials, key: string | undefined) => Promise<void> | void;
};

/** Authenticates requests of WHIP and WHEP by a token or an API key, before the body is read. */
export class WhipGuard {
  readonly #parts: WhipGuardParts;
  readonly #known = new WeakMap<FastifyRequest, Known>();

  constructor(parts: WhipGuardParts) {
    this.#parts = parts;
  }

  /**
   * onRequest hook of routes that open a session.
   * @throws {PartylineError} `unauthorized`, `forbidden`, `rate_limited`, `overloaded`
   */
  readonly opening = async (request: FastifyRequest): Promise<void> => {
    const { connections } = this.#parts;
    const nowMs = performance.now();
    const credentials = await this.#identify(request, false, {
      checkKey: (key) => connections.checkKey(key, nowMs),
      checkAccount: (accountId) => connections.checkAccount(accountId, nowMs),
      charge: (found, key) => connections.spend(found, key, performance.now()),
    });
    requireActive(credentials);
  };

  /**
   * onRequest hook of routes of a session. A session may outlast its client's token, with which it is still restarted and ended.
   * @throws {PartylineError} as {@link opening} does
   */
  readonly asking = async (request: FastifyRequest): Promise<void> => {
    const { limits } = this.#parts;
    const secret = bearerOf(request.headers.authorization) ?? '';
    limits.checkSecret(secret);
    // An account that connects too often can still end and restart its sessions.
    await this.#identify(request, true, {
      checkKey: () => {},
      checkAccount: () => {},
      charge: ({ account }) => limits.countRequest(account.id, secret),
    });
  };

  /** Returns the sender of a request that has passed a hook. */
  knownOf(request: FastifyRequest): Known {
    const known = this.#known.get(request);
    if (!known) throw new Error('the route has no guard');
    return known;
  }

  async #identify(
    request: FastifyRequest,
    mayBeExpired: boolean,
    { checkKey, checkAccount, charge }: Budget,
  ): Promise<Credentials> {
    const { authenticator, changes, onKnown } = this.#parts;
    const secret = bearerOf(request.headers.authorization);
    if (!secret) {
      throw new PartylineError('unauthorized', 'Send "Authorization: Bearer <token or API key>".');
    }
    const changesBefore = changes();
    const isToken = secret.split('.').length === JWT_PARTS;
    if (!isToken) checkKey(secret);
    const credentials = isToken
      ? await authenticator.byToken(secret, request.ip, checkAccount, mayBeExpired)
      : await authenticator.byKey(secret, request.ip);
    await charge(credentials, isToken ? undefined : secret);
    onKnown(request, credentials.account.id);
    this.#known.set(request, { credentials, changesBefore });
    return credentials;
  }
}

/** Head, claims and signature of a JSON Web Token (RFC 7519 §3); API keys have no dots. */
const JWT_PARTS = 3;
