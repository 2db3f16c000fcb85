import type { FastifyBaseLogger } from 'fastify';

const EVERY_MS = 1000;

/**
 * Returns a function that logs faults which may come fifty times a second: the first of each second, with the number of those that were
 * left out since the one before it.
 * @param message subject of the line
 */
export function logOnceASecond(
  log: Pick<FastifyBaseLogger, 'error' | 'warn'>,
  message: string,
  level: 'error' | 'warn' = 'error',
): (fault: unknown) => void {
  let atMs = -Infinity;
  let unlogged = 0;
  return (fault) => {
    const nowMs = performance.now();
    if (nowMs - atMs < EVERY_MS) {
      unlogged += 1;
      return;
    }
    log[level]({ err: fault, unlogged }, message);
    atMs = nowMs;
    unlogged = 0;
  };
}
