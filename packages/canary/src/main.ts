import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { CanaryMetrics } from './metrics.ts';
import { type Options, readOptions, USAGE } from './options.ts';
import { reportCost, reportRound } from './report.ts';
import { type Round, runRound } from './round.ts';
import { flawOf } from './verdict.ts';

/** Entry point of `npm run canary`. */

const print = (text: string) => process.stdout.write(text);

/** Exit code for wrong options. With {@link Options.isOnce}, 1 means that something was not heard as it was sent. */
const USAGE_EXIT = 2;
/** With {@link Options.isOnce}, the exit code for a round that a signal stops is this and the signal's number, as in a shell. */
const SIGNAL_EXIT = 128;

async function run(options: Options, signal: AbortSignal): Promise<void> {
  const { isOnce, everySeconds, listen } = options;
  const metrics = new CanaryMetrics();
  const server = listen && (await metrics.listen(listen.port, listen.host));
  try {
    let dueMs = performance.now();
    for (let rounds = 0; ; rounds += 1) {
      const round = await runRound(options, signal);
      metrics.take(round);
      print(reportRound(round));
      if (rounds === 0) print(reportCost(round, everySeconds));
      if (isOnce) {
        process.exitCode = isGood(round) ? 0 : 1;
        return;
      }
      dueMs = Math.max(dueMs + 1000 * everySeconds, performance.now());
      await sleep(dueMs - performance.now(), undefined, { signal });
    }
  } finally {
    server?.close();
    server?.closeAllConnections();
  }
}

const isGood = ({ directions, faults }: Round) =>
  faults.length === 0 && directions.every((direction) => flawOf(direction) === undefined);

function optionsOrUsage(): Options | undefined {
  try {
    return readOptions(process.argv.slice(2), process.env);
  } catch (fault) {
    process.stderr.write(`${fault instanceof Error ? fault.message : String(fault)}\n\n${USAGE}`);
    return undefined;
  }
}

const options = optionsOrUsage();
if (!options) process.exitCode = USAGE_EXIT;
else {
  const stopped = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      if (options.isOnce) process.exitCode = SIGNAL_EXIT + constants.signals[signal];
      stopped.abort();
    });
  }
  try {
    await run(options, stopped.signal);
  } catch (fault) {
    if (!stopped.signal.aborted) throw fault;
  }
}
