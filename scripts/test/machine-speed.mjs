/** Present speed of this machine, relative to the one on which the limits of the tests were set. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const WORK = fileURLToPath(new URL('reference-work.mjs', import.meta.url));
/** Two cores, because the limits are those of two. */
const PROCESSES = 2;
/** Time of the reference work on the machine on which the limits were set, ms (decision 191). */
const REFERENCE_MS = 180;

/** Slowness of a machine beyond which a limit grows no further: the run must end some time. */
const MOST_SLOWNESS = 4;
/** Number of measurements of which the median counts. */
const MEASUREMENTS = 3;

/**
 * Returns the factor by which the limit of a part grows: a machine that was busy at one end of the part may have been so for most of it.
 * @param {number} before slowness before the part
 * @param {number} after slowness after it
 */
export const slownessOfPart = (before, after) =>
  Math.min(Math.max(before, after, 1), MOST_SLOWNESS);

/**
 * Measures the slowness three times: what keeps the machine for a moment is not the speed of a part of minutes.
 * @param {() => Promise<number | undefined>} measure
 * @returns the median, without measurements that could not be done; undefined if none could
 */
export async function measureUsualSlowness(measure = measureSlowness) {
  /** @type {number[]} */
  const found = [];
  for (let count = 0; count < MEASUREMENTS; count += 1) {
    const slowness = await measure();
    if (slowness !== undefined) found.push(slowness);
  }
  return found.toSorted((one, other) => one - other)[found.length >> 1];
}

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
