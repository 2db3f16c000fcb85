import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from './gateway.ts';

const ROOT = '/sys/fs/cgroup';
const FILES = {
  memory: [
    { root: join(ROOT, 'memory'), limit: 'memory.limit_in_bytes', used: 'memory.usage_in_bytes' },
    { root: ROOT, limit: 'memory.max', used: 'memory.current' },
  ],
  pids: [
    { root: join(ROOT, 'pids'), limit: 'pids.max', used: 'pids.current' },
    { root: ROOT, limit: 'pids.max', used: 'pids.current' },
  ],
};

/** Lines of `memory.stat` for caches; in version 1 those of cgroups below it have names of their own. */
const CACHES = /^(?:in)?active_file (\d+)$/gm;

type Place = (typeof FILES)['memory'][number];

/** A cgroup of its own for the processes of a test: of version 1 or 2, whichever the machine has. */
export class Cgroup {
  readonly #folder: string;
  readonly #place: Place;

  private constructor(folder: string, place: Place) {
    this.#folder = folder;
    this.#place = place;
  }

  /** Undefined where this process may make none, or none that bounds so. */
  static open(controller: keyof typeof FILES): Cgroup | undefined {
    for (const place of FILES[controller]) {
      const folder = join(place.root, `partyline-test-${process.pid}`);
      try {
        mkdirSync(folder);
      } catch {
        // There is no such controller, or this user may not.
        continue;
      }
      if (existsSync(join(folder, place.limit))) return new Cgroup(folder, place);
      rmdirSync(folder);
    }
    return undefined;
  }

  /** Returns whether {@link open} can make one. */
  static isPossible(controller: keyof typeof FILES): boolean {
    const cgroup = Cgroup.open(controller);
    if (cgroup) rmdirSync(cgroup.#folder);
    return cgroup !== undefined;
  }

  /** Words with which a command must begin to run in it. */
  get command(): string[] {
    return ['sh', '-c', `echo $$ > ${join(this.#folder, 'cgroup.procs')} && exec "$@"`, 'sh'];
  }

  /** Current usage; of memory, without caches of files, which the kernel takes back when there is a limit. */
  get used(): number {
    const used = Number(this.#read(this.#place.used));
    if (!this.#place.used.startsWith('memory')) return used;
    const caches = this.#read('memory.stat').matchAll(CACHES);
    return [...caches].reduce((rest, [, bytes]) => rest - Number(bytes), used);
  }

  #read(file: string): string {
    return readFileSync(join(this.#folder, file), 'utf8');
  }

  /** @param limit undefined takes it away */
  setLimit(limit: number | undefined): void {
    const none = this.#place.limit === 'memory.limit_in_bytes' ? '-1' : 'max';
    writeFileSync(join(this.#folder, this.#place.limit), String(limit ?? none));
  }

  /** Once its last process has ended. */
  async close(): Promise<void> {
    await eventually('the cgroup can be removed', () => {
      try {
        rmdirSync(this.#folder);
        return true;
      } catch {
        // EBUSY, while a process is in it.
        return false;
      }
    });
  }
}
