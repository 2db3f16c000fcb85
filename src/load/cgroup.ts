import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Usage } from './reserves.ts';

/** Limits of the cgroups of this process (cgroups(7)): of version 2, or of the controllers of version 1. */

/** Files of a limit, and keys of `memory.stat` that count memory which the kernel reclaims before it kills a process. */
type Files = { limit: string; used: string; stat?: string; reclaimable?: readonly string[] };
type Controller = 'memory' | 'pids';

const PIDS = { limit: 'pids.max', used: 'pids.current' };
const FILES: Record<Controller, Record<'v1' | 'v2', Files>> = {
  memory: {
    v1: {
      limit: 'memory.limit_in_bytes',
      used: 'memory.usage_in_bytes',
      stat: 'memory.stat',
      reclaimable: ['total_inactive_file', 'total_active_file'],
    },
    v2: {
      limit: 'memory.max',
      used: 'memory.current',
      stat: 'memory.stat',
      reclaimable: ['inactive_file', 'active_file', 'slab_reclaimable'],
    },
  },
  pids: { v1: PIDS, v2: PIDS },
};
/** Version 1 has a very large number where version 2 says `max`. */
const UNBOUNDED = 2 ** 60;
/** Reclaimable memory is looked up only when less than this share is left: summing it up costs the kernel time. */
const NEAR_SHARE = 0.25;

/** Paths of the files of cgroups. */
export type CgroupPaths = {
  /** File that lists the cgroups of the process. */
  ofProcess: string;
  /** Mount point of the cgroups. */
  root: string;
};

const PATHS: CgroupPaths = { ofProcess: '/proc/self/cgroup', root: '/sys/fs/cgroup' };

/**
 * Returns a function that reads the use of the tightest limit among the process's own cgroup and those above
 * it: bytes of memory, or a number of processes and threads. It returns undefined while there is no limit.
 */
export function cgroupMeter(
  controller: Controller,
  paths: CgroupPaths = PATHS,
): () => Usage | undefined {
  const { folders, version } = findFolders(controller, paths);
  const files = FILES[controller][version];
  return () => {
    const bounded = folders.flatMap((folder) => readUsage(folder, files) ?? []);
    return bounded.toSorted((one, other) => one.limit - one.used - (other.limit - other.used))[0];
  };
}

function findFolders(controller: Controller, { ofProcess, root }: CgroupPaths) {
  const lines = existsSync(ofProcess) ? readFileSync(ofProcess, 'utf8').split('\n') : [];
  // Version 1 names its controllers: `4:memory:/path`; version 2 does not: `0::/path`.
  const cgroups = lines.map((line) => /^\d+:([^:]*):(\/.*)$/.exec(line) ?? []);
  const own = cgroups.find(([, names]) => names?.split(',').includes(controller));
  const version = own ? ('v1' as const) : ('v2' as const);
  const [, , path = '/'] = own ?? cgroups.find(([, names]) => names === '') ?? [];
  const top = own ? join(root, controller) : root;
  const { limit } = FILES[controller][version];
  const folders: string[] = [];
  // In a container its own cgroup is mounted at the top, whatever path the kernel tells.
  for (let each = path; ; each = dirname(each)) {
    if (existsSync(join(top, each, limit))) folders.push(join(top, each));
    if (each === '/') return { folders, version };
  }
}

function readUsage(folder: string, files: Files): Usage | undefined {
  const read = (name: string) => readFileSync(join(folder, name), 'utf8').trim();
  const limit = Number(read(files.limit));
  // `max` is not a number.
  if (!(limit < UNBOUNDED)) return undefined;
  const used = Number(read(files.used));
  const { stat, reclaimable = [] } = files;
  if (stat === undefined || limit - used > limit * NEAR_SHARE) return { used, limit };
  const lines = new Map(
    read(stat)
      .split('\n')
      .map((line) => line.split(' ') as [string, string]),
  );
  const freeable = reclaimable.reduce((sum, key) => sum + Number(lines.get(key) ?? 0), 0);
  return { used: Math.max(0, used - freeable), limit };
}
