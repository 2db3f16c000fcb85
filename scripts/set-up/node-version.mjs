/** The machine's own Node: it only has to run set-up and npm, for the gateway gets its own. */
import { SetUpFailure } from './failure.mjs';

const oldestMajor = 20;

/** Ends set-up under a Node that is too old for it. */
export function requireNode() {
  if (Number.parseInt(process.versions.node, 10) >= oldestMajor) return;
  throw new SetUpFailure(
    `Partyline needs Node ${oldestMajor} or newer to set itself up, and this is ${process.version}: install a newer one and run this again.`,
  );
}
