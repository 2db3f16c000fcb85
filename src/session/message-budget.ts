import type { Timings } from '../../config/timings.ts';
import type { ClientMessage } from '../protocol/client-messages.ts';
import type { Rate, TokenBucket } from '../token-bucket.ts';

/**
 * Longest time that a message waits for the budget of its account, ms: five connections of a free account may send one at
 * the same time. One that would wait longer is refused after {@link REFUSED_AFTER_MS}.
 */
const MAX_ACCOUNT_WAIT_MS = 1500;
const REFUSED_AFTER_MS = 1000;
/** Time without a message after which a connection is no longer over its budget, ms. */
const IDLE_MS = 1000;
/** Length for each multiple of which a message costs a token more, characters. */
const CHARACTERS_PER_TOKEN = 4096;
/** Length up to which a message that the account has paid for costs it nothing, characters: more than twice what clients send. */
const PREPAID_CHARACTERS = 256;

/** Time whose tokens may be spent at once, s. */
const BURST_S = 5;

/** Rate of text messages of one connection, in tokens. */
export const connectionRate = (messagesPerSecond: number): Rate => ({
  perSecond: messagesPerSecond,
  burst: messagesPerSecond * BURST_S,
});

/**
 * Rate of text messages of all connections of an account to this process. The burst lets all of them arrive
 * at once, even as browsers, each with a join, two transports and a producer. The consumers that it is offered are
 * paid for by the producers of the others.
 */
export const accountRate = (maxCcu: number): Rate => ({
  perSecond: 20 + maxCcu * 0.4,
  burst: 100 + maxCcu * 17,
});

/** Cost of a message in tokens, by the work that it causes. */
export function costOf(message: ClientMessage, characters: number): number {
  return weightOf(message) + characters / CHARACTERS_PER_TOKEN;
}

/** Part of the cost of a message that another one has paid for, in tokens: all of it, unless the message is longer than need be. */
export function prepaidCostOf(message: ClientMessage, characters: number): number {
  return costOf(message, Math.min(characters, PREPAID_CHARACTERS));
}

/** Cost of an ICE restart, in tokens, by a message or over HTTP. */
export const RESTART_ICE_COST = 5;

function weightOf(message: ClientMessage): number {
  switch (message.type) {
    case 'restart_ice':
      return RESTART_ICE_COST;
    case 'join':
    case 'produce':
      return 5;
    case 'configure': {
      const { audio, audio_out: audioOut, delivery, mute } = message;
      const isNewPath = audio !== undefined || audioOut !== undefined || delivery !== undefined;
      if (isNewPath) return 5;
      return mute === undefined ? 1 : 2;
    }
    case 'leave':
    case 'connect_transport':
    case 'pause_producer':
    case 'resume_producer':
      return 2;
    // A browser sends one for each speaker when it joins a room.
    case 'resume_consumer':
      return 0.1;
  }
}

/** Verdict on a message: handled after `waitMs`, refused after that, or the connection is closed. */
export type Charge = {
  waitMs: number;
  outcome: 'handle' | 'refuse' | 'close';
  /** True if the client must be told that it is over its budget. */
  isToBeTold: boolean;
  /** Time until the whole budget is available again, ms. */
  retryAfterMs: number;
};

/**
 * Budget of the text messages of one connection, within that of its account. Pure: the caller passes the
 * time. Messages are charged one after the other, each when the one before it has been handled.
 */
export class MessageBudget {
  readonly #rate: Rate;
  readonly #own: TokenBucket;
  readonly #account: () => TokenBucket;
  readonly #timings: Timings['budgets'];
  #over: { sinceMs: number; isTold: boolean } | undefined;

  /** @param account bucket of the account, which its other connections share */
  constructor(
    rate: Rate,
    own: TokenBucket,
    account: () => TokenBucket,
    timings: Timings['budgets'],
  ) {
    this.#rate = rate;
    this.#own = own;
    this.#account = account;
    this.#timings = timings;
  }

  /**
   * Charges a message. A client that sends one message at a time, each after the answer to the one before, is read
   * more slowly, and neither told nor closed.
   * @param idleMs time for which no message of the connection was waiting when it came; 0 if it came behind another one
   * @param prepaid part of the cost that the account has paid by another message, in tokens: only the connection is charged it
   */
  charge(cost: number, idleMs: number, nowMs: number, prepaid = 0): Charge {
    const account = this.#account();
    const costOfAccount = cost - prepaid;
    const accountWaitMs = costOfAccount > 0 ? account.waitMs(costOfAccount, nowMs) : 0;
    const isAlone = idleMs > 0;
    const isRefused = accountWaitMs > MAX_ACCOUNT_WAIT_MS;
    const waitMs = Math.max(
      this.#own.waitMs(cost, nowMs),
      isRefused ? REFUSED_AFTER_MS : accountWaitMs,
    );
    // A message that is paid for says nothing about the budget of the account.
    const hasRecovered =
      this.#own.balance(nowMs) >= this.#rate.perSecond && account.waitMs(cost, nowMs) === 0;
    if (idleMs >= IDLE_MS || hasRecovered) this.#over = undefined;
    const isExceeding = waitMs > 0 && !isAlone;
    if (isExceeding) this.#over ??= { sinceMs: nowMs, isTold: false };
    this.#own.spend(cost, nowMs);
    if (!isRefused) account.spend(costOfAccount, nowMs);
    const retryAfterMs = Math.ceil(
      Math.max(accountWaitMs, this.#own.waitMs(this.#rate.burst, nowMs)),
    );
    const overMs = this.#over && isExceeding ? nowMs - this.#over.sinceMs : 0;
    if (overMs >= this.#timings.closeAfterMs) {
      return { waitMs: 0, outcome: 'close', isToBeTold: false, retryAfterMs };
    }
    const outcome = isRefused ? 'refuse' : 'handle';
    return { waitMs, outcome, isToBeTold: !isRefused && this.#isToBeTold(overMs), retryAfterMs };
  }

  /** Returns true once for each time that the connection is over its budget for long enough to be told. */
  #isToBeTold(overMs: number): boolean {
    if (!this.#over || this.#over.isTold || overMs < this.#timings.tellAfterMs) return false;
    this.#over.isTold = true;
    return true;
  }
}
