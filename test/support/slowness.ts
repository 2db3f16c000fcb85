import { measureSlowness } from '../../scripts/test/machine-speed.mjs';

/** Slowness beyond which no test grows more patient. */
const MOST = 4;

/** Returns by how much slower than the reference machine this one is at the moment (decision 191): 1 to 4. */
export async function slownessOfMachine(): Promise<number> {
  return Math.min(MOST, Math.max(1, (await measureSlowness()) ?? 1));
}

/**
 * Measures the slowness of this machine now, and once more when the result is called: it may become busy in the middle of a test.
 * @returns what measures again, and resolves with the greater of the two
 */
export async function watchSlowness(): Promise<() => Promise<number>> {
  const before = await slownessOfMachine();
  return async () => Math.max(before, await slownessOfMachine());
}
