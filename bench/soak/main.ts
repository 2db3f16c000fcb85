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

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => interrupted.abort());
}

const say = (line: string) => process.stderr.write(`${line}\n`);

async function run(options: SoakOptions): Promise<void> {
  const result = await soak(options, say, interrupted.signal);
  process.stdout.write(`${reportSoak(result)}\n`);
  if (result.claims.some(({ isOk }) => !isOk)) process.exitCode = 1;
}

const options = readArguments();
if (options) {
  await run(options).catch((fault: unknown) => {
    if (!interrupted.signal.aborted) throw fault;
    say('Interrupted; everything that was started has been stopped.');
    process.exitCode = 130;
  });
}
