import { parseArgs } from 'node:util';
import { machineFaults } from '../config/machine-checks.ts';
import { readSettings } from '../config/settings.ts';
import { readTimings } from '../config/timings.ts';
import { openApp } from './app.ts';
import { announce } from './processes/announcement.ts';
import {
  endOnSignals,
  OWNER_ONLY_UMASK,
  parentToEndWith,
  describeStartupError,
} from './processes/end-on-signals.ts';
import { lanAddresses, serveLan, urlAt } from './processes/lan.ts';
import { drainOnUnhandledRejection } from './processes/last-resort.ts';
import { openSupervisor } from './processes/supervisor.ts';

/** Entry point: starts one gateway or several, prints the address, and ends them on a signal. */

async function openGateway(...[settings, timings, abort]: Parameters<typeof openSupervisor>) {
  const app = await openApp(settings, timings, undefined, abort);
  return { ...app, leave: (by: string) => app.leave(undefined, by) };
}

async function main(): Promise<void> {
  process.umask(OWNER_ONLY_UMASK);
  const { lan: isForLan } = readArguments();
  const environment = isForLan ? await serveLan(process.env) : process.env;
  const settings = readSettings(environment, machineFaults);
  const timings = readTimings(process.env);
  const gateway = await endOnSignals(
    (abort) =>
      settings.PROCESSES === 1
        ? openGateway(settings, timings, abort)
        : openSupervisor(settings, timings, abort),
    { endsWith: parentToEndWith(process.argv) },
  );
  if (!gateway) return;
  drainOnUnhandledRejection(gateway);
  const lan = isForLan && {
    urls: lanAddresses(settings.HOST).map((address) => urlAt(address, gateway.url)),
    isTerminal: process.stdout.isTTY,
  };
  announce(gateway, settings, lan || undefined);
}

/** Reads the arguments of this process. @throws {TypeError} naming one that is not known */
function readArguments() {
  const { values } = parseArgs({
    options: {
      lan: { type: 'boolean', default: false },
      // Read where the process ends: end-on-signals.ts.
      'end-with-parent': { type: 'string' },
    },
  });
  return values;
}

main().catch((fault: unknown) => {
  process.stderr.write(`Partyline could not start. ${describeStartupError(fault)}\n`);
  process.exitCode = 1;
});
