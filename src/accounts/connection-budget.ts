import { createHash } from 'node:crypto';
import { PartylineError } from '../protocol/errors.ts';
import type { LeaveReason } from '../protocol/messages.ts';
import type { Rate } from '../token-bucket.ts';
import { AccountBudgets } from './account-budgets.ts';
import type { Credentials } from './authenticator.ts';

/** Cost, in connections, of a connection that was closed because it stayed over its budget. */
const ABUSE_COST = 20;
/** Reasons for which such a connection is closed. */
const ABUSES = new Set(['rate_limited', 'audio_rate_exceeded']);
/** Number of remembered keys above which those whose block is over are forgotten. */
const MAX_KEYS = 1000;

/**
 * Rate of connections of an account to one process. All connections that the plan allows may be opened at
 * once, lost together, and opened again.
 */
export const connectRate = (maxCcu: number): Rate => ({
  perSecond: 2 + maxCcu / 10,
  burst: 200 + 3 * maxCcu,
});

/**
 * Limits how often an account connects to this process. An account over its budget is refused for a while without asking
 * Redis, because this process remembers its keys.
 */
export class ConnectionBudget {
  readonly #blockMs: number;
  readonly #budgets = new AccountBudgets(connectRate);
  /** Ends of blocks by `performance.now()`, by account. */
  readonly #blockedUntilMs = new Map<number, number>();
  /** Accounts whose keys were used to connect over budget, by the digest of the key. */
  readonly #accountOfKey = new Map<string, number>();

  /** @param blockMs time for which an account over its budget is kept out */
  constructor(blockMs: number) {
    this.#blockMs = blockMs;
  }

  /** @throws {PartylineError} `rate_limited` if the account of this key is known, without Redis, to be kept out */
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
   * @param apiKey key that the client sent, if it sent one
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

  /** Charges the account {@link ABUSE_COST} for a connection that was closed because it stayed over its budget. */
  ended(account: Credentials['account'], reason: LeaveReason, nowMs: number): void {
    if (ABUSES.has(reason)) this.#budgets.of(account, nowMs).spend(ABUSE_COST, nowMs);
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
