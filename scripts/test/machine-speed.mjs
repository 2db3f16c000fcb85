/** Present speed of this machine, relative to the one on which the limits of the tests were set. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const WORK = fileURLToPath(new URL('reference-work.mjs', import.meta.url));
/** Two cores, because the limits are those of two. */
const PROCESSES = 2;
/** Time of the reference work on the machine on which the limits were set, ms (decision 191). */
const REFERENCE_MS = 180;

/** Returns the time of the reference work over that of the reference machine (2 means half as fast); undefined if it could not be done. */
export async function measureSlowness() {
  const startMs = performance.now();
  const exits = Array.from({ length: PROCESSES }, () => {
    return once(spawn(process.execPath, [WORK], { stdio: 'inherit' }), 'exit');
  });
  const codes = (await Promise.all(exits)).map(([code]) => code);
  if (codes.some((code) => code !== 0)) {
    process.stderr.write(
      `The speed of the machine is unknown: the reference work ended with ${codes.join(', ')}.\n`,
    );
    return undefined;
  }
  return (performance.now() - startMs) / REFERENCE_MS;
}
