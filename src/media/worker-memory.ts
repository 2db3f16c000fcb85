import { readFileSync } from 'node:fs';

/** Parts of a media worker that take memory. */
type WorkerParts = { routers: number; transports: number; consumers: number };

/** Limits of the memory of a media worker, bytes. */
export type WorkerMemoryLimits = {
  /** Memory without any part. */
  base: number;
  /** Memory of each part: several times what it was measured to take. */
  router: number;
  transport: number;
  consumer: number;
  /** Growth after which the reason for it is looked for. */
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

/** Judgement on the memory of a media worker; `grows`: its clients must be looked at; `exceeded`: it must be ended. */
type Verdict = 'usual' | 'grows' | 'exceeded';

/** Watches the resident memory of a media worker. Pure: the caller passes the time. */
export class WorkerMemory {
  readonly #limits: WorkerMemoryLimits;
  readonly #watchForMs: number;
  #leastBytes = Infinity;
  #watchUntilMs = -Infinity;

  /** @param watchForMs time for which the reason for a growth is looked for */
  constructor(watchForMs: number, limits: WorkerMemoryLimits = WORKER_MEMORY) {
    this.#watchForMs = watchForMs;
    this.#limits = limits;
  }

  judge(bytes: number, { routers, transports, consumers }: WorkerParts, nowMs: number): Verdict {
    const { base, router, transport, consumer, growth } = this.#limits;
    const most = base + routers * router + transports * transport + consumers * consumer;
    if (bytes > most) return 'exceeded';
    if (bytes - this.#leastBytes >= growth) {
      this.#watchUntilMs = nowMs + this.#watchForMs;
      this.#leastBytes = bytes;
    }
    this.#leastBytes = Math.min(this.#leastBytes, bytes);
    return nowMs < this.#watchUntilMs ? 'grows' : 'usual';
  }
}

/** Returns the resident memory of a process, bytes; undefined if it has ended, or no descriptor is left to read it. */
export function residentBytesOf(pid: number): number | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const kib = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
    return kib === undefined ? undefined : Number(kib) * KIB;
  } catch {
    return undefined;
  }
}
