import { readFileSync } from 'node:fs';

/** The kernel counts CPU in hundredths of a second, whatever its own clock (proc(5), "USER_HZ"). */
const TICK_MS = 10;
/** Fields of `/proc/<pid>/stat` that come before user and system time, after the name of the program. */
const FIELDS_BEFORE_CPU = 11;

type Watched = { pid: number; cpuMs: number; cpuShare: number };

/**
 * What each media worker takes of a core, read from the kernel: to ask a media worker would wake it, and one that hangs
 * would not answer.
 */
export class MediaWorkerWatch {
  readonly #pids: () => number[];
  /** A place for each; who replaces a dead one takes its place. */
  #places: (Watched | undefined)[];
  #sampledAtMs = performance.now();
  /** How many have been started in place of others. */
  restarts = 0;

  constructor(pids: () => number[]) {
    this.#pids = pids;
    this.#places = pids().map(watch);
  }

  /** The share of one core that each has taken since this was last asked, by place; 0 for one that is away. */
  sample(): number[] {
    const nowMs = performance.now();
    const elapsedMs = nowMs - this.#sampledAtMs;
    this.#sampledAtMs = nowMs;
    const pids = this.#pids();
    this.#places = this.#places.map((place) =>
      place && pids.includes(place.pid) ? place : undefined,
    );
    for (const place of this.#places) {
      if (!place) continue;
      const cpuMs = cpuMsOf(place.pid);
      place.cpuShare = Math.max(0, cpuMs - place.cpuMs) / elapsedMs;
      place.cpuMs = cpuMs;
    }
    for (const pid of pids) if (!this.#places.some((place) => place?.pid === pid)) this.#add(pid);
    return this.#places.map((place) => place?.cpuShare ?? 0);
  }

  #add(pid: number): void {
    const free = this.#places.indexOf(undefined);
    this.#places[free === -1 ? this.#places.length : free] = watch(pid);
    this.restarts += 1;
  }
}

const watch = (pid: number): Watched => ({ pid, cpuMs: cpuMsOf(pid), cpuShare: 0 });

/** User and system time; 0 if the process has gone. */
function cpuMsOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [user, system] = fields.slice(FIELDS_BEFORE_CPU);
    return (Number(user) + Number(system)) * TICK_MS;
  } catch {
    // It is about to be noticed by who started it.
    return 0;
  }
}
