import { measureSlowness } from '../../scripts/test/machine-speed.mjs';

/** Slowness beyond which no test grows more patient. */
const MOST = 4;

/** Returns by how much slower than the reference machine this one is at the moment (decision 191): 1 to 4. */
export async function slownessOfMachine(): Promise<number> {
  return Math.min(MOST, Math.max(1, (await measureSlowness()) ?? 1));
}
