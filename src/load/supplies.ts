import { existsSync, fstatSync, readFileSync, statfsSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import type { FastifyBaseLogger } from 'fastify';
import { cgroupMeter } from './cgroup.ts';
import { DescriptorCounter } from './descriptors.ts';
import type { Supply, Usage } from './reserves.ts';

const MB = 1e6;
const STDOUT = 1;

/** Measurements that are made elsewhere in this process. */
export type SupplySources = {
  /** Called at intervals with the number of descriptors that new clients may take; negative if part of the reserve is in use. */
  onFreeDescriptors: (free: number) => void;
  mediaWorkerPids: () => number[];
  /** WebRTC ports, one for each media worker, and the number of media workers whose port another program has taken. */
  rtc: { countTaken: () => number; ports: number };
  /** Open ends of pipes to other nodes, and the number of ports for them. */
  pipes: { count: () => number; ports: number };
  /** Open rooms, each of which takes a port of this machine, and the number of such ports. */
  rooms: { count: () => number; ports: number };
  /** Folder of the gateway's own Redis, if it has one. */
  dataDir: string | undefined;
};

/** Returns a function that gives a share of a limit, within bounds; pure. */
export const shareOf = (share: number, min: number, max: number) => (limit: number) =>
  Math.min(max, Math.max(min, Math.round(limit * share)));

/** Lists all resources that can run out, each with its reserve for connected clients. */
export function suppliesOf(sources: SupplySources): Supply[] {
  const ofDescriptors = shareOf(0.1, 32, 512);
  const ofPorts = shareOf(0.1, 1, 512);
  const ofDisk = shareOf(0.05, 4 * MB, 64 * MB);
  const limit = readDescriptorLimit();
  const descriptors = new DescriptorCounter();
  const { dataDir, mediaWorkerPids, rtc, pipes, rooms } = sources;
  return [
    {
      resource: 'descriptors',
      name: 'process',
      measure: () => ({ used: descriptors.count('self') ?? limit, limit }),
      reserveOf: ofDescriptors,
      onFree: sources.onFreeDescriptors,
    },
    {
      resource: 'descriptors',
      name: 'media workers',
      measure: () => {
        // They inherit the limit. A room goes to another media worker while one has descriptors
        // left.
        const used = mediaWorkerPids().map((pid) => descriptors.count(pid) ?? 0);
        return used.length > 0 ? { used: Math.min(...used), limit } : undefined;
      },
      reserveOf: ofDescriptors,
    },
    {
      resource: 'memory',
      name: 'heap',
      measure: () => {
        const heap = getHeapStatistics();
        return { used: heap.used_heap_size, limit: heap.heap_size_limit };
      },
      // From 80 % on, V8 ends a process that spends most of its time collecting garbage.
      reserveOf: shareOf(0.25, 16 * MB, 1024 * MB),
    },
    {
      resource: 'memory',
      name: 'cgroup',
      measure: cgroupMeter('memory'),
      reserveOf: shareOf(0.1, 32 * MB, 512 * MB),
    },
    {
      resource: 'memory',
      name: 'machine',
      measure: () => usageOfMachine(),
      // Less than of a cgroup, because other programs run on the machine, too: 50 MB of 1 GB.
      reserveOf: shareOf(0.05, 32 * MB, 256 * MB),
    },
    {
      resource: 'threads',
      name: 'cgroup',
      measure: cgroupMeter('pids'),
      // A usage worker has 12, a redis-server 6, a media worker 2.
      reserveOf: shareOf(0.1, 24, 128),
    },
    {
      resource: 'ports',
      name: 'pipes',
      measure: () => ({ used: pipes.count(), limit: pipes.ports }),
      reserveOf: ofPorts,
    },
    {
      resource: 'ports',
      name: 'rooms',
      measure: () => ({ used: rooms.count(), limit: rooms.ports }),
      reserveOf: ofPorts,
    },
    {
      resource: 'ports',
      name: 'WebRTC',
      measure: () => {
        // While one lacks its port, those that are down for another reason do not help, either.
        const used = rtc.countTaken() > 0 ? rtc.ports - mediaWorkerPids().length : 0;
        return { used, limit: rtc.ports };
      },
      // One media worker that has its port takes all rooms.
      reserveOf: () => 0.5,
    },
    { resource: 'disk', name: 'data', measure: () => usageOfDisk(dataDir), reserveOf: ofDisk },
    { resource: 'disk', name: 'log', measure: () => usageOfDisk(logPath()), reserveOf: ofDisk },
  ];
}

/** Logs the number of clients for which this process has descriptors. */
export function logClients(log: FastifyBaseLogger, supplies: Supply[]): void {
  const usage = supplies[0]?.measure();
  if (!usage) return;
  const { used: open, limit } = usage;
  const reserve = supplies[0]!.reserveOf(limit);
  const clients = Math.max(0, limit - open - reserve);
  log.info({ limit, open, reserve, clients }, `file descriptors allow ${clients} clients`);
}

/** Reads the soft limit of open files (`proc_pid_limits(5)`) of this process. */
function readDescriptorLimit(): number {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  const [, soft = ''] = /^Max open files\s+(\S+)/m.exec(limits) ?? [];
  return soft === 'unlimited' ? Infinity : Number(soft);
}

/**
 * Returns use and size of the machine's memory, in bytes; undefined if the kernel does not tell them. Caches that the kernel would give
 * up count as free, swap as neither: sound stands still while the machine swaps.
 * @param path file in the format of `/proc/meminfo`
 */
export function usageOfMachine(path = '/proc/meminfo'): Usage | undefined {
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const bytesOf = (name: string) =>
    1024 * Number(new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(text)?.[1]);
  const [limit, available] = [bytesOf('MemTotal'), bytesOf('MemAvailable')];
  return limit > 0 && available >= 0 ? { used: Math.max(0, limit - available), limit } : undefined;
}

/** Returns use and size of the disk on which a file is, in bytes available to this user. */
function usageOfDisk(path: string | undefined) {
  if (path === undefined) return undefined;
  const { blocks, bavail, bsize } = statfsSync(path);
  return blocks === 0 ? undefined : { used: (blocks - bavail) * bsize, limit: blocks * bsize };
}

/** Returns the path of the log, if it is a file. */
const logPath = () => (fstatSync(STDOUT).isFile() ? `/proc/self/fd/${STDOUT}` : undefined);
