import { writeSync } from 'node:fs';
import { Writable } from 'node:stream';
import { isatty } from 'node:tty';
import type { FastifyBaseLogger, FastifyServerOptions } from 'fastify';
import { pino } from 'pino';
import pretty from 'pino-pretty';
import type { Settings } from '../config/settings.ts';
import { LogLines } from './log-lines.ts';

const STDOUT = 1;

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

const openStream = () => (isatty(STDOUT) ? linesForPeople() : new LogLines(STDOUT));

function linesForPeople() {
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
  return pretty({ destination, translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname' });
}
