import type { Running } from './end-on-signals.ts';

/**
 * Drains the gateway after an unhandled rejection: it is a bug, after which the state of the process may be
 * wrong. By default Node would end the process, and every call with it.
 */
export function drainOnUnhandledRejection(running: Running): void {
  const { log } = running;
  let isLeaving = false;
  process.on('unhandledRejection', (reason) => {
    log.error({ err: reason }, 'unhandled rejection; draining the node');
    process.exitCode = 1;
    if (isLeaving) return;
    isLeaving = true;
    running
      .leave('an unhandled rejection')
      .catch((fault: unknown) => log.error({ err: fault }, 'process not closed cleanly'));
  });
}
