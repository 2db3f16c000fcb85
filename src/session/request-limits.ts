import type { Timings } from '../../config/timings.ts';
import { AccountBudgets } from '../accounts/account-budgets.ts';
import type { Account } from '../accounts/accounts.ts';
import { PartylineError } from '../protocol/errors.ts';
import { TokenBucket } from '../token-bucket.ts';
import { AudioBudget } from './audio-budget.ts';
import { ControlLimit } from './control-limit.ts';
import { accountRate, connectionRate, MessageBudget } from './message-budget.ts';
import type { ClientNotifier } from './client-notifier.ts';
import type { ReadControl } from './read-gate.ts';
import { FairScheduler } from './turns.ts';

/** Limits that the text messages of all clients of this process share: the budgets of their accounts, and the event loop. */
export class RequestLimits {
  readonly turns = new FairScheduler();
  /** Turns for received bytes of all kinds, mostly audio. */
  readonly readTurns = new FairScheduler();
  readonly #messagesPerSecond: number;
  readonly #timings: Timings['budgets'];
  readonly #accounts = new AccountBudgets(accountRate);

  /** @param messagesPerSecond rate of text messages that each connection may keep up */
  constructor(messagesPerSecond: number, timings: Timings['budgets']) {
    this.#messagesPerSecond = messagesPerSecond;
    this.#timings = timings;
  }

  /**
   * Returns the budget of a new connection.
   * @param account returns the present account of the connection
   */
  openBudget(account: () => Account): MessageBudget {
    const rate = connectionRate(this.#messagesPerSecond);
    const own = new TokenBucket(rate, performance.now());
    const ofAccount = () => this.#accounts.of(account(), performance.now());
    return new MessageBudget(rate, own, ofAccount, this.#timings);
  }

  /**
   * Charges a request that does not come over a WebSocket to the budget of its account.
   * @throws {PartylineError} `rate_limited`
   */
  charge(account: Account, cost: number): void {
    const nowMs = performance.now();
    const budget = this.#accounts.of(account, nowMs);
    const retryAfterMs = Math.ceil(budget.waitMs(cost, nowMs));
    if (retryAfterMs > 0) {
      throw new PartylineError('rate_limited', 'Too many requests of the account.', {
        retryAfterMs,
      });
    }
    budget.spend(cost, nowMs);
  }

  /** Returns the budget of the binary messages of a new connection. */
  openAudioBudget(): AudioBudget {
    return new AudioBudget(this.#timings, performance.now());
  }

  /** Returns the limit of the pings and pongs of a new connection. @param reading pauses the reading of the connection */
  openControlLimit(reading: ReadControl, client: ClientNotifier): ControlLimit {
    return new ControlLimit(reading, this.#timings, client);
  }
}
