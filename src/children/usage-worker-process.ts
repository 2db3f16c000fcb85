import { fileURLToPath } from 'node:url';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { environmentOf, type Settings } from '../../config/settings.ts';
import { KeptProcess } from './kept-process.ts';

const PROGRAM = fileURLToPath(new URL('../../workers/usage.ts', import.meta.url));

/** Starts a usage worker as a child, which is started again when it ends, and killed when it hangs. */
export function startUsageWorker(
  settings: Settings,
  log: FastifyBaseLogger,
  timings: Timings,
): KeptProcess {
  // The port is for one that is run apart: a gateway may start several.
  const environment = environmentOf({ ...settings, WORKER_PORT: 0 }, timings);
  return new KeptProcess(
    {
      name: 'usage worker',
      command: [PROGRAM],
      environment,
      endSignal: 'SIGTERM',
      // Its only message is that it runs. Without a listener there is no channel, and no watch.
      onMessage: () => {},
      timings: timings.processes,
    },
    log,
  );
}
