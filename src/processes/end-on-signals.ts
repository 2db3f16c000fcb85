import type { FastifyBaseLogger } from 'fastify';
import { SettingsError } from '../../config/settings.ts';

/** A gateway, of one process or several, that runs. */
export type Running = {
  log: FastifyBaseLogger;
  /** Lets clients leave, for so long as they may, then closes. */
  leave(): Promise<void>;
  /** Closes at once. */
  close(): Promise<void>;
};

/**
 * Ends this process on a signal: SIGTERM leaves, and so does SIGHUP, whose terminal has gone; SIGINT, and any second signal,
 * closes; a third no longer waits for that.
 */
export async function endOnSignals<T extends Running>(opening: Promise<T>): Promise<T> {
  let running: T | undefined;
  let signals = 0;
  const stop = (signal: NodeJS.Signals) => {
    signals += 1;
    if (signals > 2) process.exit(1);
    const isGentle = signals === 1 && signal !== 'SIGINT';
    if (running) void end(running, isGentle);
    else void opening.then((opened) => end(opened, false), nothingToClose);
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  process.on('SIGHUP', stop);
  running = await opening;
  return running;
}

async function end(running: Running, isGentle: boolean): Promise<void> {
  try {
    await (isGentle ? running.leave() : running.close());
  } catch (fault) {
    running.log.error({ err: fault }, 'not closed cleanly');
    process.exitCode = 1;
  }
}

/** It did not open; who awaits the opening says why. */
const nothingToClose = () => {};

/** Why a gateway did not start, for the person who started it. */
export function whyNotStarted(fault: unknown): string {
  if (fault instanceof SettingsError || !(fault instanceof Error)) return String(fault);
  const { message, cause } = fault;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}
