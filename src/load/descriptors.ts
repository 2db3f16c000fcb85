import { readdirSync, readFileSync, statSync } from 'node:fs';
import type { FastifyBaseLogger } from 'fastify';
import { PartylineError } from '../protocol/errors.ts';
import type { Timings } from '../../config/timings.ts';

/** Descriptors kept for rooms, media workers, Redis, pipes, health checks and logs: this share of the limit, within bounds. */
const RESERVE_SHARE = 0.1;
const MIN_RESERVE = 32;
const MAX_RESERVE = 512;
/** Newcomers are refused until this much of the reserve, and half of it more, is free again. */
const FREE_AGAIN = 1.5;

/** Number of descriptors that newcomers may not take; pure. */
export function reserveOf(limit: number): number {
  return Math.min(MAX_RESERVE, Math.max(MIN_RESERVE, Math.round(limit * RESERVE_SHARE)));
}

/** Reads the soft limit of open files (`proc_pid_limits(5)`) of this process. */
function readLimit(): number {
  const [, soft = ''] =
    /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return soft === 'unlimited' ? Infinity : Number(soft);
}

/** Counts the open descriptors; works when none is left, where the kernel tells their number (from 6.2 on). */
function countOpen(limit: number): number {
  try {
    return statSync('/proc/self/fd').size || readdirSync('/proc/self/fd').length;
  } catch {
    // To read the folder takes a descriptor.
    return limit;
  }
}

/**
 * Watches how many file descriptors are left, and keeps newcomers out while that is no more than the reserve: a process without any
 * can open no room, replace no media worker and reach no Redis.
 */
export class Descriptors {
  readonly #log: FastifyBaseLogger;
  readonly #timings: Timings['load'];
  readonly #onFree: (free: number) => void;
  readonly #limit: number;
  readonly #reserve: number;
  readonly #count: (limit: number) => number;
  readonly #timer: NodeJS.Timeout;
  #open = 0;
  #isShort = false;

  /**
   * @param onFree told at intervals how many descriptors newcomers may take
   * @param limit by default that of this process
   */
  constructor(
    log: FastifyBaseLogger,
    timings: Timings['load'],
    onFree: (free: number) => void,
    limit = readLimit(),
    count = countOpen,
  ) {
    this.#log = log;
    this.#timings = timings;
    this.#onFree = onFree;
    this.#limit = limit;
    this.#reserve = reserveOf(limit);
    this.#count = count;
    this.#timer = setInterval(() => this.sample(), timings.sampleEveryMs);
  }

  get isShort(): boolean {
    return this.#isShort;
  }

  /** Looks how many are open now. */
  sample(): void {
    this.#open = this.#count(this.#limit);
    const free = this.#limit - this.#open;
    const isShort = free < this.#reserve * (this.#isShort ? FREE_AGAIN : 1);
    if (isShort !== this.#isShort) {
      const figures = { open: this.#open, limit: this.#limit };
      if (isShort) this.#log.warn(figures, 'file descriptors run short: nobody new is let in');
      else this.#log.info(figures, 'enough file descriptors are free again');
    }
    this.#isShort = isShort;
    this.#onFree(Math.max(0, free - this.#reserve));
  }

  /** Logs how many clients the descriptors let in. */
  logLimit(): void {
    const [limit, open, reserve] = [this.#limit, this.#open, this.#reserve];
    const clients = Math.max(0, limit - open - reserve);
    this.#log.info({ limit, open, reserve, clients }, `file descriptors let ${clients} clients in`);
  }

  /** @throws {PartylineError} `overloaded` while no more than the reserve is left */
  check(): void {
    if (!this.#isShort) return;
    const options = { retryAfterMs: this.#timings.retryAfterMs };
    throw new PartylineError('overloaded', 'This node has too many connections.', options);
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
