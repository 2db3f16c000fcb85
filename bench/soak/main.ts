import { runCommand } from '../command.ts';
import { readOptions, USAGE } from './options.ts';
import { reportSoak } from './report.ts';
import { soak } from './soak.ts';

/** The soak: many peers that come and go for long, while things break; what is left in the end is the result. */

const say = (line: string) => process.stderr.write(`${line}\n`);

await runCommand(USAGE, readOptions, async (options, signal) => {
  const result = await soak(options, say, signal);
  process.stdout.write(`${reportSoak(result)}\n`);
  if (result.claims.some(({ isOk }) => !isOk)) process.exitCode = 1;
});
