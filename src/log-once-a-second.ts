import type { FastifyBaseLogger } from 'fastify';

const EVERY_MS = 1000;

type Level = 'error' | 'warn';
type Log = Pick<FastifyBaseLogger, 'error' | 'warn'>;

/**
 * Log of faults that many rooms or accounts have at the same time, for example while Redis is disconnected: of each message the first of each
 * second, with the number of those that were left out since the one before it.
 */
export class LogOnceASecond {
  readonly #last = new Map<string, { atMs: number; unlogged: number }>();

  /** @param log log of the room or account, for its name in the line */
  warn(log: Log, fields: object, message: string): void {
    this.#log(log, 'warn', fields, message);
  }

  /** @param log log of the room or account, for its name in the line */
  error(log: Log, fields: object, message: string): void {
    this.#log(log, 'error', fields, message);
  }

  #log(log: Log, level: Level, fields: object, message: string): void {
    const nowMs = performance.now();
    const last = this.#last.get(message);
    if (last && nowMs - last.atMs < EVERY_MS) {
      last.unlogged += 1;
      return;
    }
    this.#last.set(message, { atMs: nowMs, unlogged: 0 });
    log[level]({ ...fields, unlogged: last?.unlogged ?? 0 }, message);
  }
}

/**
 * Returns a function that logs faults which may come fifty times a second: the first of each second, with the number of those that were
 * left out since the one before it.
 * @param message subject of the line
 */
export function logOnceASecond(
  log: Log,
  message: string,
  level: Level = 'error',
): (fault: unknown) => void {
  const faults = new LogOnceASecond();
  return (fault) => faults[level](log, { err: fault }, message);
}
