import { setTimeout as delay } from 'node:timers/promises';
import { readSettings } from '../../config/settings.ts';
import { timingsWith } from '../../config/timings.ts';
import { KeptProcess } from '../../src/children/kept-process.ts';
import { counters } from '../../src/counters.ts';
import { openLog } from '../../src/log.ts';
import { unblockedStdout } from '../../src/stdout.ts';

/**
 * A process that logs, and has started a child again that logs, too. Its standard error gets `logging` before it logs 2 MB, and afterwards the
 * longest stall of its event loop meanwhile and the number of lost lines.
 */

/** The child logs a line and tells its process id. */
const CHILD = `
  const { readSettings } = await import('${import.meta.resolve('../../config/settings.ts')}');
  const { openLog } = await import('${import.meta.resolve('../../src/log.ts')}');
  openLog(readSettings({}), 'child').info('child started');
  process.send(process.pid);
`;

const log = openLog(readSettings({}), 'parent');
let started = Promise.withResolvers<number>();
const child = new KeptProcess(
  {
    name: 'child',
    command: ['--input-type=module', '--eval', CHILD],
    environment: process.env,
    endSignal: 'SIGTERM',
    onMessage: (pid) => started.resolve(pid as number),
    timings: timingsWith({ processes: { firstRestartMs: 100 } }).processes,
  },
  log,
);
// As the entry point of the gateway writes its announcement.
unblockedStdout().write('ready\n');
const first = await started.promise;
started = Promise.withResolvers();
process.kill(first, 'SIGKILL');
await started.promise;

process.stderr.write('logging\n');
let longestStallMs = 0;
let turnMs = performance.now();
const turns = setInterval(() => {
  longestStallMs = Math.max(longestStallMs, performance.now() - turnMs);
  turnMs = performance.now();
}, 5);
for (let i = 0; i < 2000; i += 1) {
  log.info({ text: 'x'.repeat(1000) }, 'line');
  if (i % 100 === 0) await delay(5);
}
await delay(20);
clearInterval(turns);
process.stderr.write(JSON.stringify({ longestStallMs, lost: counters.logLinesLost }));
await child.close();
