import { readdirSync, readFileSync } from 'node:fs';

/** The kernel's figures of a process (proc(5)). */

/** Length to which the kernel cuts the name of a process. */
const MAX_NAME_BYTES = 15;

/** CPU time of its threads so far, ms; of those that live. */
export function cpuMs(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sumMs, thread) => {
    const [runNs] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ');
    return sumMs + Number(runNs) / 1e6;
  }, 0);
}

/** Memory that it holds. */
export function residentKb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

/** The processes that a process has started, and those that they have, by the name of their program. */
export function descendants(ancestor: number): { pid: number; name: string }[] {
  const all = readdirSync('/proc')
    .map(Number)
    .flatMap((pid) => {
      if (!(pid > 0)) return [];
      try {
        const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
        return [{ pid, name, parent: Number(statFields(pid)[1]) }];
      } catch {
        // It has gone since the folder was read.
        return [];
      }
    });
  const childrenOf = (of: number): typeof all =>
    all.filter(({ parent }) => parent === of).flatMap((child) => [child, ...childrenOf(child.pid)]);
  return childrenOf(ancestor);
}

/** True if a program is called so, of whose name the kernel may have cut the end. */
export const isNamed = (name: string, program: string) => name === program.slice(0, MAX_NAME_BYTES);

/** From the third field on: the second is the name, which may hold anything. */
function statFields(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
