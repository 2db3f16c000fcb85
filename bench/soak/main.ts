import { readOptions, type SoakOptions, USAGE } from './options.ts';
import { reportSoak } from './report.ts';
import { soak } from './soak.ts';

/** The soak: many peers that come and go for long, while things break; what is left in the end is the result. */

function readArguments(): SoakOptions | undefined {
  try {
    return readOptions(process.argv.slice(2));
  } catch (fault) {
    process.stderr.write(`${fault instanceof Error ? fault.message : String(fault)}\n\n${USAGE}`);
    process.exitCode = 2;
    return undefined;
  }
}

const options = readArguments();
if (options) {
  const result = await soak(options, (line) => process.stderr.write(`${line}\n`));
  process.stdout.write(`${reportSoak(result)}\n`);
  if (result.claims.some(({ isOk }) => !isOk)) process.exitCode = 1;
}
