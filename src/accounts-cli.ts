import { runAccountsCommand } from './cli/run-accounts-command.ts';
import { OWNER_ONLY_UMASK } from './processes/end-on-signals.ts';

/** The process of the operator's command, `npm run accounts -- …`. */

// The reader of the output may have closed it (`| head`).
process.stdout.on('error', (fault: NodeJS.ErrnoException) => {
  if (fault.code !== 'EPIPE') throw fault;
});

process.umask(OWNER_ONLY_UMASK);
process.exitCode = await runAccountsCommand(process.argv.slice(2), process.env, process);
