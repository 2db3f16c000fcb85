import { createInterface } from 'node:readline/promises';
import { runAccountsCommand } from './cli/run-accounts-command.ts';
import { boundExit } from './processes/bounded-exit.ts';
import { OWNER_ONLY_UMASK } from './processes/end-on-signals.ts';

/** The process of the operator's command, `npm run accounts -- …`. */

// The reader of the output may have closed it (`| head`).
process.stdout.on('error', (fault: NodeJS.ErrnoException) => {
  if (fault.code !== 'EPIPE') throw fault;
});

process.umask(OWNER_ONLY_UMASK);
boundExit();
const { stdin, stdout, stderr } = process;
process.exitCode = await runAccountsCommand(process.argv.slice(2), process.env, {
  stdout: { write: print },
  stderr,
  ask: stdin.isTTY ? ask : undefined,
});

function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stdout.write(text, (fault) => (fault ? reject(fault) : resolve()));
  });
}

/**
 * Asks on `stderr`, because only the result belongs on `stdout`. Returns an empty answer at the end of input
 * (Ctrl-D).
 */
async function ask(question: string): Promise<string> {
  using lines = createInterface({ input: stdin, output: stderr });
  const answer = lines.question(question);
  const ended = new Promise<string>((resolve) => {
    lines.once('close', () => resolve(''));
  });
  return await Promise.race([answer, ended]);
}
