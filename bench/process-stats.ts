import { readdirSync, readFileSync } from 'node:fs';

/** What the kernel says of a process (proc(5)). */

/** USER_HZ, in which /proc counts on every architecture that Node runs on. */
const TICKS_PER_S = 100;
/** The kernel cuts the name of a process to so many bytes. */
const MAX_NAME_BYTES = 15;

/** User and system time of all its threads so far. */
export function cpuMs(pid: number): number {
  const fields = statFields(pid);
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_S;
}

/** Memory that it holds. */
export function residentKb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

/** The children of a process that run the program `name`. */
export function childrenNamed(parent: number, name: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      if (!(pid > 0)) return false;
      try {
        const comm = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
        return comm === name.slice(0, MAX_NAME_BYTES) && Number(statFields(pid)[1]) === parent;
      } catch {
        // It has gone since the folder was read.
        return false;
      }
    });
}

/** From the third field on: the second is the name, which may hold anything. */
function statFields(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
