import { writeSync } from 'node:fs';
import { Writable } from 'node:stream';
import { isatty } from 'node:tty';
import Fastify, { type FastifyBaseLogger, type FastifyServerOptions } from 'fastify';
import pretty from 'pino-pretty';
import type { Settings } from '../config/settings.ts';
import { LogLines } from './log-lines.ts';

const STDOUT = 1;

type LogOptions = Exclude<FastifyServerOptions['logger'], boolean | undefined>;

/**
 * How a process logs: in JSON, or in lines for people where it writes to a terminal.
 * @param name tells its lines from those of others
 */
export function logOptions({ LOG_LEVEL: level }: Settings, name?: string): LogOptions {
  return {
    level,
    ...(name && { name }),
    stream: isatty(STDOUT) ? linesForPeople() : new LogLines(STDOUT),
  };
}

/** The log of a process that has no HTTP server. */
export function openLog(settings: Settings, name: string): FastifyBaseLogger {
  return Fastify({ logger: logOptions(settings, name) }).log;
}

function linesForPeople() {
  const destination = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      try {
        writeSync(STDOUT, chunk);
      } catch {
        // The terminal has been closed; the gateway has its leave to take yet.
      }
      done();
    },
  });
  return pretty({ destination, translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname' });
}
