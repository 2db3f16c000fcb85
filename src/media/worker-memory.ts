import { readFileSync } from 'node:fs';

/** Numbers of the objects of a media worker that take memory. */
type WorkerParts = { routers: number; transports: number; consumers: number };

/** Limits of the memory of a media worker, bytes. */
export type WorkerMemoryLimits = {
  /** Allowance for a media worker without such objects. */
  base: number;
  /** Allowance for each object: several times its measured size. */
  router: number;
  transport: number;
  consumer: number;
  /** Growth from which its cause is searched for. */
  growth: number;
};

const KIB = 1024;
const MIB = 1024 * KIB;
export const WORKER_MEMORY: WorkerMemoryLimits = {
  base: 512 * MIB,
  router: 256 * KIB,
  transport: MIB,
  consumer: 128 * KIB,
  growth: 16 * MIB,
};

/**
 * Verdict on the memory of a media worker. `grows`: its transports must be checked, because one may be the cause; `exceeded`: the
 * process must be killed.
 */
type Verdict = 'usual' | 'grows' | 'exceeded';

/** Watches the resident memory of a media worker. Pure: the caller passes the time. */
export class WorkerMemory {
  readonly #limits: WorkerMemoryLimits;
  readonly #watchForMs: number;
  /** Least memory since the last growth that counted, bytes. */
  #leastBytes = Infinity;
  #watchUntilMs = -Infinity;

  /** @param watchForMs time after a growth for which the verdict is `grows`, ms */
  constructor(watchForMs: number, limits: WorkerMemoryLimits = WORKER_MEMORY) {
    this.#watchForMs = watchForMs;
    this.#limits = limits;
  }

  /** @param bytes resident memory of the media worker */
  judge(bytes: number, { routers, transports, consumers }: WorkerParts, nowMs: number): Verdict {
    const { base, router, transport, consumer, growth } = this.#limits;
    const maxBytes = base + routers * router + transports * transport + consumers * consumer;
    if (bytes > maxBytes) return 'exceeded';
    if (bytes - this.#leastBytes >= growth) {
      this.#watchUntilMs = nowMs + this.#watchForMs;
      this.#leastBytes = bytes;
    }
    this.#leastBytes = Math.min(this.#leastBytes, bytes);
    return nowMs < this.#watchUntilMs ? 'grows' : 'usual';
  }
}

/** Returns the resident memory of a process, bytes; undefined if it has ended, or this process is out of file descriptors. */
export function residentBytesOf(pid: number): number | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const kib = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
    return kib === undefined ? undefined : Number(kib) * KIB;
  } catch {
    return undefined;
  }
}
