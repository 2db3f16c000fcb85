import { createHash } from 'node:crypto';
import { PartylineError } from '../protocol/errors.ts';
import type { Rate } from '../token-bucket.ts';
import { AccountBudgets } from './account-budgets.ts';
import type { Credentials } from './authenticator.ts';

/** A connection that was closed because it went on over its budget costs as much as this many. */
const ABUSE_COST = 20;
/** Number of remembered keys above which those whose block is over are forgotten. */
const MAX_KEYS = 1000;

/**
 * Rate of connections of an account to one process. All that the plan allows may come at once, lose their connections together, and
 * come back.
 */
const connectRate = (maxCcu: number): Rate => ({
  perSecond: 2 + maxCcu / 10,
  burst: 200 + 3 * maxCcu,
});

/**
 * Limits how often an account connects to this process. An account over its budget is kept out for a while without a question to
 * Redis: its keys are known here by then.
 */
export class ConnectionBudget {
  readonly #blockMs: number;
  readonly #budgets = new AccountBudgets(connectRate);
  /** By account: `performance.now()` at which its block ends. */
  readonly #blockedUntilMs = new Map<number, number>();
  /** Accounts of the keys with which somebody connected over budget, by the digest of the key. */
  readonly #accountOfKey = new Map<string, number>();

  /** @param blockMs how long an account over its budget is kept out */
  constructor(blockMs: number) {
    this.#blockMs = blockMs;
  }

  /** @throws {PartylineError} `rate_limited` if the account of this key is kept out, as far as that is known without Redis */
  checkKey(apiKey: string, nowMs: number): void {
    if (this.#accountOfKey.size === 0) return;
    const accountId = this.#accountOfKey.get(digestOf(apiKey));
    if (accountId !== undefined) this.checkAccount(accountId, nowMs);
  }

  /** @throws {PartylineError} `rate_limited` if the account is kept out */
  checkAccount(accountId: number, nowMs: number): void {
    const leftMs = (this.#blockedUntilMs.get(accountId) ?? -Infinity) - nowMs;
    if (leftMs > 0) throw tooManyConnections(leftMs);
  }

  /**
   * Counts a connection.
   * @param apiKey the one that the client showed, if it showed one
   * @throws {PartylineError} `rate_limited` if the account has connected too often
   */
  spend({ account }: Credentials, apiKey: string | undefined, nowMs: number): void {
    this.checkAccount(account.id, nowMs);
    const bucket = this.#budgets.of(account, nowMs);
    if (bucket.waitMs(1, nowMs) === 0) {
      bucket.spend(1, nowMs);
      return;
    }
    this.#forgetPast(nowMs);
    this.#blockedUntilMs.set(account.id, nowMs + this.#blockMs);
    if (apiKey !== undefined) this.#accountOfKey.set(digestOf(apiKey), account.id);
    throw tooManyConnections(this.#blockMs);
  }

  /** A connection of the account was closed because it went on over its budget. */
  punish(account: Credentials['account'], nowMs: number): void {
    this.#budgets.of(account, nowMs).spend(ABUSE_COST, nowMs);
  }

  #forgetPast(nowMs: number): void {
    for (const [accountId, untilMs] of this.#blockedUntilMs) {
      if (untilMs <= nowMs) this.#blockedUntilMs.delete(accountId);
    }
    if (this.#accountOfKey.size < MAX_KEYS) return;
    for (const [digest, accountId] of this.#accountOfKey) {
      if (!this.#blockedUntilMs.has(accountId)) this.#accountOfKey.delete(digest);
    }
  }
}

const digestOf = (apiKey: string) => createHash('sha256').update(apiKey).digest('base64');

const tooManyConnections = (retryAfterMs: number) =>
  new PartylineError('rate_limited', 'The account connects too often.', {
    retryAfterMs: Math.ceil(retryAfterMs),
  });
