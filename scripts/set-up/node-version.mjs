/** Checks the machine's own Node, which only runs set-up and npm: the gateway runs on the project's. */
import { SetUpFailure } from './failure.mjs';

const oldestMajor = 20;

/** @throws {SetUpFailure} if this Node is too old for set-up */
export function requireNode() {
  if (Number.parseInt(process.versions.node, 10) >= oldestMajor) return;
  throw new SetUpFailure(
    `Partyline needs Node ${oldestMajor} or newer for its set-up, and this is ${process.version}: install a newer version and run the command again.`,
  );
}
