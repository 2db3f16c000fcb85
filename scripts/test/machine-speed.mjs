/** How fast this machine is at the moment, beside the one on which the limits of the tests were set. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const WORK = fileURLToPath(new URL('reference-work.mjs', import.meta.url));
/** Two cores, because the limits are those of two. */
const PROCESSES = 2;
/** Time of the reference work on the machine on which the limits hold, with nothing beside it, ms. */
const REFERENCE_MS = 700;

/** Returns the time of the reference work over that of the reference machine; 2 means half as fast. */
export async function measureSlowness() {
  const startMs = performance.now();
  const exits = Array.from({ length: PROCESSES }, () => {
    return once(spawn(process.execPath, [WORK], { stdio: 'inherit' }), 'exit');
  });
  for (const [code] of await Promise.all(exits)) {
    if (code !== 0) throw new Error(`the reference work ended with code ${code}`);
  }
  return (performance.now() - startMs) / REFERENCE_MS;
}
