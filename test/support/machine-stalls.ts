import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Worker } from 'node:worker_threads';

/**
 * Stalls: a machine with many guests gives one of them nothing for a while, or one core less. A process that runs on the other core
 * meanwhile does not see it; the gateway, its media worker, or the browser may be on that core.
 */

/** Cores that are watched at most: on a machine with more, these are a sample. */
const MOST_CORES = 4;
/** Time between two looks of this process, and of a core's thread, which costs 1 % of the core. */
const LOOK_EVERY_MS = 5;
const CORE_LOOK_EVERY_MS = 10;

/** Watch on a core: what its thread notes, and the thread. */
type CoreWatch = { noted: BigInt64Array; thread: Worker };

/** Watches on the cores of this machine, from the first need until the end of this process or {@link unwatchCores}. */
let cores: Promise<CoreWatch[]> | undefined;

/** Returns the numbers of the cores that this process may use (`proc_pid_status(5)`). */
function allowedCores(): number[] {
  const [, list = '0'] =
    /^Cpus_allowed_list:\s+(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return list.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/** Starts a thread on a core. It notes the longest time between two looks, and the last look, ns of `process.hrtime`. */
async function watchCore(core: number): Promise<CoreWatch> {
  const noted = new BigInt64Array(new SharedArrayBuffer(3 * 8));
  const thread = new Worker(new URL('./core-watch.ts', import.meta.url), {
    workerData: { core, noted, everyMs: CORE_LOOK_EVERY_MS },
  });
  await once(thread, 'message');
  thread.unref();
  return { noted, thread };
}

/** Leaves the cores unwatched in a file that counts the threads of its process. */
export function watchNoCores(): void {
  cores = Promise.resolve([]);
}

/** Ends the threads that watch the cores: files that share a process run beside them otherwise. */
export async function unwatchCores(): Promise<void> {
  const watched = await cores;
  cores = undefined;
  await Promise.all((watched ?? []).map(({ thread }) => thread.terminate()));
}

/**
 * Watches this process and the cores of the machine from now on, for one caller at a time. A core that one process fills does not count
 * as stalled: a thread that only looks at the time has it within 20 ms.
 * @returns what ends that, and tells the longest stall, ms
 */
export async function watchStalls(): Promise<() => number> {
  cores ??= Promise.all(allowedCores().slice(0, MOST_CORES).map(watchCore));
  const watched = await cores;
  for (const { noted } of watched) Atomics.store(noted, 0, 0n);
  const loop = monitorEventLoopDelay({ resolution: LOOK_EVERY_MS });
  loop.enable();
  return () => {
    loop.disable();
    const nowNs = process.hrtime.bigint();
    const stallsNs = watched.flatMap(({ noted }) => [
      Atomics.load(noted, 0),
      // One that has not ended.
      nowNs - Atomics.load(noted, 1),
    ]);
    return Math.max(loop.max, ...stallsNs.map(Number)) / 1e6;
  };
}

/** Greatest step of {@link awakeMs} between two looks, ms: longer turns of the event loop count as stalls, too. */
const LONGEST_STEP_MS = 100;

let [awakeBeforeMs, lookedMs] = [0, 0];
let looking: NodeJS.Timeout | undefined;

/**
 * Reads a clock, ms, that stops while this process is kept from its work: what other processes do in a time that it measures is not
 * taken for longer than it was. It runs from its first reading on.
 */
export function awakeMs(): number {
  if (!looking) {
    lookedMs = performance.now();
    looking = setInterval(() => {
      [awakeBeforeMs, lookedMs] = [awakeMs(), performance.now()];
    }, LOOK_EVERY_MS).unref();
  }
  return awakeBeforeMs + Math.min(performance.now() - lookedMs, LONGEST_STEP_MS);
}
