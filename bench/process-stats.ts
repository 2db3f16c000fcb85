import { readdirSync, readFileSync } from 'node:fs';

/** Figures of a process from the kernel (proc(5)). */

/** Length to which the kernel cuts the name of a process. */
const MAX_NAME_BYTES = 15;

/** Returns the CPU time of the living threads of a process so far, ms. */
export function cpuMs(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sumMs, thread) => {
    const [runNs] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ');
    return sumMs + Number(runNs) / 1e6;
  }, 0);
}

/** Returns the resident memory of a process. */
export function residentKb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

/** Returns all descendants of a process, with the names of their programs. */
export function descendants(ancestor: number): { pid: number; name: string }[] {
  const all = readdirSync('/proc')
    .map(Number)
    .flatMap((pid) => {
      if (!(pid > 0)) return [];
      try {
        const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
        return [{ pid, name, parent: Number(statFields(pid)[1]) }];
      } catch {
        // The process has ended since the folder was read.
        return [];
      }
    });
  const childrenOf = (of: number): typeof all =>
    all.filter(({ parent }) => parent === of).flatMap((child) => [child, ...childrenOf(child.pid)]);
  return childrenOf(ancestor);
}

/** Returns true if a process has the name of a program, the end of which the kernel may have cut off. */
export const isNamed = (name: string, program: string) => name === program.slice(0, MAX_NAME_BYTES);

/** Returns the fields from the third on: the second is the name, which may contain any character. */
function statFields(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
