import { flushCompileCache } from 'node:module';
import { constants } from 'node:os';
import { takeCoverage } from 'node:v8';
import koffi from 'koffi';

/**
 * Ends of processes that do not hang. At the end of a process Node waits for the threads in which V8 compiles, and one of them may wait for
 * the main thread to collect garbage: then only SIGKILL ends the process (nodejs/node#54918, decision 223).
 */

const libc = koffi.load(null);
const alarm = libc.func('unsigned int alarm(unsigned int)') as (afterS: number) => number;
const exit = libc.func('void _exit(int)') as (code: number) => void;
const handle = libc.func('void *signal(int, void *)') as (signal: number, handler: unknown) => void;

/** Time that a process has to end once all has been done, s. */
const EXIT_WITHIN_S = 10;

/** Has the kernel end this process by SIGALRM if it hangs at its end; the first process of a container ends with code 14. */
export function boundExit(withinS = EXIT_WITHIN_S): void {
  // The kernel spares the first process from signals that have no handler. This handler is native:
  // JavaScript does not run at the end.
  if (process.pid === 1) handle(constants.signals.SIGALRM, libc.symbol('_exit'));
  process.on('exit', () => alarm(withinS));
}

/** Ends this process as `process.exit` does, without waiting for threads. */
export function exitNow(code: number): never {
  process.emit('exit', code);
  flushCompileCache();
  if (process.env['NODE_V8_COVERAGE'] !== undefined) takeCoverage();
  exit(code);
  // Not reached.
  return process.exit(code);
}
