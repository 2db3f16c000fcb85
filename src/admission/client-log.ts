import type { FastifyBaseLogger } from 'fastify';
import { AccountBudgets } from '../accounts/account-budgets.ts';
import type { Account } from '../accounts/accounts.ts';
import type { Rate } from '../token-bucket.ts';

/**
 * Rate of log lines about the clients of an account: all that its plan allows may come, join a room, leave and go at once. An
 * account may connect or join a room fifty times a second all day, whose lines would fill a disk in days.
 */
const lineRate = (maxCcu: number): Rate => ({
  perSecond: 1 + maxCcu / 25,
  burst: 500 + 4 * maxCcu,
});

/** Logs what clients do. Lines of an account beyond its budget are left out, and counted in one line per interval. */
export class ClientLog {
  readonly #log: FastifyBaseLogger;
  readonly #timer: NodeJS.Timeout;
  readonly #budgets = new AccountBudgets(lineRate);
  /** Number of lines that were left out in this interval, by account and message. */
  readonly #leftOut = new Map<number, Record<string, number>>();

  /** @param everyMs the interval */
  constructor(log: FastifyBaseLogger, everyMs: number) {
    this.#log = log;
    this.#timer = setInterval(() => this.#flush(), everyMs);
  }

  /** Returns the log of a client of an account, whose lines of level info are within the budget; warnings and errors always are. */
  of(account: Account, log: FastifyBaseLogger): FastifyBaseLogger {
    const info = (...line: [fields: unknown, message?: string]) => {
      const nowMs = performance.now();
      if (this.#budgets.of(account, nowMs).take(1, nowMs) >= 0) log.info(...line);
      else this.#count(account.id, line.findLast((part) => typeof part === 'string') ?? '');
    };
    return Object.assign(Object.create(log) as FastifyBaseLogger, { info });
  }

  close(): void {
    clearInterval(this.#timer);
    this.#flush();
  }

  #count(accountId: number, message: string): void {
    const leftOut = this.#leftOut.get(accountId) ?? {};
    leftOut[message] = (leftOut[message] ?? 0) + 1;
    this.#leftOut.set(accountId, leftOut);
  }

  #flush(): void {
    for (const [account, leftOut] of this.#leftOut) {
      this.#log.info({ account, leftOut }, 'further lines left out');
    }
    this.#leftOut.clear();
  }
}
