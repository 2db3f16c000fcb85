import { readSettings, SettingsError } from '../config/settings.ts';
import { type App, openApp } from './app.ts';

/** The process: starts the gateway, says where it is, and ends it on a signal. */

const say = (line: string) => process.stdout.write(`${line}\n`);

function announce({ url, demo }: App): void {
  say(`\nPartyline is running. Open ${url}`);
  if (demo) say(`Demo account ${demo.account.id} (plan ${demo.account.plan}), key ${demo.apiKey}`);
  say('Ctrl-C stops it.\n');
  const account = demo ? { account_id: demo.account.id, api_key: demo.apiKey } : {};
  say(`ready ${JSON.stringify({ url, ...account })}`);
}

async function main(): Promise<void> {
  const opening = openApp(readSettings(process.env));
  let app: App | undefined;
  let signals = 0;
  const close = () => void opening.then((opened) => opened.close(), nothingToClose);
  /** SIGTERM lets clients leave; SIGINT, and any second signal, closes at once; a third no longer waits for that. */
  const stop = (signal: NodeJS.Signals) => {
    signals += 1;
    if (signals > 2) process.exit(1);
    if (signals === 1 && signal === 'SIGTERM' && app) void app.drain().then(close);
    else if (app) void app.close();
    else close();
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  app = await opening;
  announce(app);
}

/** It did not open; main says why. */
const nothingToClose = () => {};

main().catch((fault: unknown) => {
  const isExpected = fault instanceof SettingsError || !(fault instanceof Error);
  const cause =
    fault instanceof Error && fault.cause instanceof Error ? `: ${fault.cause.message}` : '';
  process.stderr.write(
    `Partyline could not start. ${isExpected ? String(fault) : fault.message + cause}\n`,
  );
  process.exitCode = 1;
});
