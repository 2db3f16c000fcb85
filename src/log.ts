import { writeSync } from 'node:fs';
import { Writable } from 'node:stream';
import { isatty } from 'node:tty';
import type { FastifyBaseLogger, FastifyServerOptions } from 'fastify';
import { pino } from 'pino';
import type { Settings } from '../config/settings.ts';
import { LogLines } from './log-lines.ts';
import { unblockedStdout } from './stdout.ts';

const STDOUT = 1;

/** Formats lines for a terminal; takes 15 ms to load, which a process without one does not need. */
const pretty = isatty(STDOUT) ? (await import('pino-pretty')).default : undefined;

type LogOptions = Exclude<FastifyServerOptions['logger'], boolean | undefined>;

/**
 * Logger options of a process: JSON, or readable lines on a terminal.
 * @param name distinguishes its lines from those of other processes
 */
export function logOptions({ LOG_LEVEL: level }: Settings, name?: string): LogOptions {
  return {
    level,
    ...(name && { name }),
    stream: openStream(),
  };
}

/** The log of a process that has no HTTP server. */
export function openLog({ LOG_LEVEL: level }: Settings, name: string): FastifyBaseLogger {
  return pino({ level, name }, openStream());
}

const openStream = () => (pretty ? linesForPeople(pretty) : new LogLines(writeToStdout));

function writeToStdout(bytes: Buffer): number {
  unblockedStdout();
  return writeSync(STDOUT, bytes);
}

function linesForPeople(format: NonNullable<typeof pretty>) {
  const destination = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      try {
        writeSync(STDOUT, chunk);
      } catch {
        // The terminal has been closed, but the gateway still has to drain.
      }
      done();
    },
  });
  return format({ destination, translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname' });
}
