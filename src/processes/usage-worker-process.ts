import { fileURLToPath } from 'node:url';
import type { FastifyBaseLogger } from 'fastify';
import { environmentOf, type Settings } from '../../config/settings.ts';
import { KeptProcess } from './kept-process.ts';

const PROGRAM = fileURLToPath(new URL('../../workers/usage.ts', import.meta.url));

/** Starts a usage worker as a child. */
export function startUsageWorker(settings: Settings, log: FastifyBaseLogger): KeptProcess {
  const environment = environmentOf(settings);
  return new KeptProcess(
    { name: 'usage worker', command: [PROGRAM], environment, endSignal: 'SIGTERM' },
    log,
  );
}
