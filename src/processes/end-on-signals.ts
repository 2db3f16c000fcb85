import type { FastifyBaseLogger } from 'fastify';
import { SettingsError } from '../../config/settings.ts';
import { boundExit, exitNow } from './bounded-exit.ts';
import { Terminal } from './terminal.ts';

/** File mode mask: files of a process are readable by its own user only. */
export const OWNER_ONLY_UMASK = 0o077;

/** The argument by which npm's scripts ask for {@link EndOptions.endsWith}, with the process id of npm. */
const END_WITH_PARENT = '--end-with-parent=';

const LOOK_FOR_PARENT_EVERY_MS = 500;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** A running gateway, of one process or several, or a running usage worker. */
export type Running = {
  log: FastifyBaseLogger;
  /**
   * Drains: gives clients time to leave, then closes.
   * @param by signal or other cause, for the log
   */
  leave(by: string): Promise<void>;
  /** Closes at once. */
  close(): Promise<void>;
};

export type EndOptions = {
  /** Process id of the parent with which this process ends: npm cannot hand on every signal. */
  endsWith?: number | undefined;
  /** A signal that closes at once, also when it is the first. */
  closesOn?: NodeJS.Signals;
};

/**
 * Opens the program of this process, and ends it on a signal. The first SIGTERM, SIGINT or SIGHUP drains, a second one closes,
 * a third exits at once. A signal during the opening aborts it.
 * @param open opens the program; must give up when its signal is aborted
 * @returns undefined if a signal aborted the opening
 * @throws whatever `open` does
 */
export async function endOnSignals<T extends Running>(
  open: (abort: AbortSignal) => Promise<T>,
  { endsWith, closesOn }: EndOptions = {},
): Promise<T | undefined> {
  boundExit();
  const terminal = new Terminal();
  const opening = new AbortController();
  let running: T | undefined;
  let requests = 0;
  const stop = (by: string) => {
    requests += 1;
    if (requests > 2 || (requests > 1 && !running)) exitNow(1);
    if (!running) opening.abort();
    else void end(running, requests === 1 && by !== closesOn ? by : undefined);
  };
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (signal === 'SIGHUP' && terminal.wasLeftInBackground) {
        running?.log.info('terminal closed; a gateway in the background continues');
      } else stop(signal);
    });
  }
  if (endsWith !== undefined) {
    onParentGone(endsWith, () => requests === 0 && stop('the end of its parent process'));
  }
  try {
    running = await open(opening.signal);
  } catch (fault) {
    if (opening.signal.aborted) return undefined;
    throw fault;
  }
  if (!opening.signal.aborted) return running;
  await end(running, undefined);
  return undefined;
}

/** @param by cause of the drain, for the log; undefined to close at once */
async function end(running: Running, by: string | undefined): Promise<void> {
  try {
    await (by === undefined ? running.close() : running.leave(by));
  } catch (fault) {
    running.log.error({ err: fault }, 'process not closed cleanly');
    process.exitCode = 1;
  }
}

/** Process id of the parent with which this process is to end; undefined if it was started directly. */
export function parentToEndWith(argv: string[]): number | undefined {
  const argument = argv.find((word) => word.startsWith(END_WITH_PARENT));
  return argument === undefined ? undefined : Number(argument.slice(END_WITH_PARENT.length));
}

/** Calls `onGone` when the parent process has ended, even if it ended before this process could look for it. */
function onParentGone(parent: number, onGone: () => void): void {
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onGone();
  }, LOOK_FOR_PARENT_EVERY_MS).unref();
}

/** Describes a start-up error for the person who started the process. */
export function describeStartupError(fault: unknown): string {
  if (fault instanceof SettingsError || !(fault instanceof Error)) return String(fault);
  const { message, cause } = fault;
  if (!(cause instanceof Error) || message.includes(cause.message)) return message;
  return message.endsWith('.')
    ? `${message} Cause: ${cause.message}`
    : `${message}: ${cause.message}`;
}
