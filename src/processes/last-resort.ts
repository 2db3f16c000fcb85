import type { Running } from './end-on-signals.ts';

/**
 * Drains the gateway when a promise was rejected that nobody handles: it is a fault of the program, after which the process may not be
 * what it should be. Node would end it, and every call with it.
 */
export function drainOnUnhandledRejection(running: Running): void {
  const { log } = running;
  let isLeaving = false;
  process.on('unhandledRejection', (reason) => {
    log.error({ err: reason }, 'unhandled rejection: the node drains');
    process.exitCode = 1;
    if (isLeaving) return;
    isLeaving = true;
    running
      .leave('an unhandled rejection')
      .catch((fault: unknown) => log.error({ err: fault }, 'not closed cleanly'));
  });
}
