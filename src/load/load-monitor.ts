import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { PartylineError } from '../protocol/errors.ts';
import {
  judgeLoad,
  type LoadLevel,
  type LoadMarks,
  type LoadSample,
  STEADY_SAMPLES,
} from './load-level.ts';

const NOT_YET_MEASURED: LoadSample = {
  loopDelayMs: { p50: 0, p99: 0 },
  cpu: { process: 0, eventLoop: 0, decoder: 0, mixThreads: [], mediaWorkers: [] },
  memoryBytes: 0,
};

/** Monitors the load of this gateway process, and refuses new clients while it is overloaded. */
export class LoadMonitor {
  readonly #timer: NodeJS.Timeout;
  readonly #samples: LoadSample[] = [];
  readonly #retryAfterMs: number;
  #level: LoadLevel = 'normal';
  #workLevel: LoadLevel = 'normal';
  #memoryLevel: LoadLevel = 'normal';

  /** @param onLevel called every second with the level of all but memory */
  constructor(
    sample: () => LoadSample,
    marks: LoadMarks,
    log: FastifyBaseLogger,
    onLevel: (workLevel: LoadLevel) => void,
    { sampleEveryMs, retryAfterMs }: Timings['load'],
  ) {
    this.#retryAfterMs = retryAfterMs;
    const workMarks = { ...marks, memoryBytes: 0 };
    const memoryMarks = { ...marks, loopDelayMs: 0, cpuShare: 0 };
    this.#timer = setInterval(() => {
      this.#samples.push(sample());
      if (this.#samples.length > STEADY_SAMPLES) this.#samples.shift();
      const level = judgeLoad(this.#samples, marks, this.#level);
      if (level !== this.#level)
        log.warn({ load: this.latest, before: this.#level }, `load: ${level}`);
      this.#level = level;
      this.#workLevel = judgeLoad(this.#samples, workMarks, this.#workLevel);
      this.#memoryLevel = judgeLoad(this.#samples, memoryMarks, this.#memoryLevel);
      onLevel(this.#workLevel);
    }, sampleEveryMs);
  }

  get level(): LoadLevel {
    return this.#level;
  }

  /** True while memory alone would raise the level. */
  get isMemoryShort(): boolean {
    return this.#memoryLevel !== 'normal';
  }

  get latest(): LoadSample {
    return this.#samples.at(-1) ?? NOT_YET_MEASURED;
  }

  /** @throws {PartylineError} `overloaded` while this gateway process is overloaded */
  check(): void {
    if (this.#level !== 'overloaded') return;
    const options = { retryAfterMs: this.#retryAfterMs };
    throw new PartylineError('overloaded', 'This node is overloaded.', options);
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
