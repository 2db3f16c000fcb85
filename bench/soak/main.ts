import { runCommand } from '../command.ts';
import { readOptions, USAGE } from './options.ts';
import { reportSoak } from './report.ts';
import { soak } from './soak.ts';

/** The soak: many peers come and go for a long time while faults are injected; the result is the state at the end. */

const log = (line: string) => process.stderr.write(`${line}\n`);

await runCommand(USAGE, readOptions, async (options, signal) => {
  const result = await soak(options, log, signal);
  process.stdout.write(`${reportSoak(result)}\n`);
  if (result.claims.some(({ isOk }) => !isOk)) process.exitCode = 1;
});
