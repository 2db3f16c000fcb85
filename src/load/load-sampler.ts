import { availableParallelism } from 'node:os';
import { type ELDHistogram, eventLoopUtilization, monitorEventLoopDelay } from 'node:perf_hooks';
import type { LoadSample } from './load-level.ts';

/** Interval at which the event loop's delay is measured. */
const RESOLUTION_MS = 20;
/**
 * Utilization of the event loop below which its delay is not measured: it can hardly be late, and the
 * measurement would keep waking it.
 */
const IDLE_SHARE = 0.05;

/**
 * Measures the load of this process, its threads and its media workers. Sampling is cheap, and cheaper while the event
 * loop is idle.
 */
export class LoadSampler {
  readonly #mediaWorkerShares: () => number[];
  readonly #decoderShare: () => number;
  readonly #mixThreadShares: () => number[];
  readonly #delay: ELDHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  #isWatchingDelay = false;
  #atMs = performance.now();
  #utilization = eventLoopUtilization();
  #processCpu = process.cpuUsage();
  #threadCpu = process.threadCpuUsage();
  #memoryBytes = 0;

  /**
   * @param mediaWorkerShares returns the share of one core that each media worker used since the last call
   * @param decoderShare returns the share of the time since the last call in which the decoder thread was busy
   * @param mixThreadShares returns the time of a tick in each mixing thread, as a share of its length
   */
  constructor(
    mediaWorkerShares: () => number[],
    decoderShare: () => number,
    mixThreadShares: () => number[],
  ) {
    this.#mediaWorkerShares = mediaWorkerShares;
    this.#decoderShare = decoderShare;
    this.#mixThreadShares = mixThreadShares;
  }

  /** Measures the load since the last call. */
  sample(): LoadSample {
    const nowMs = performance.now();
    const elapsedMs = nowMs - this.#atMs;
    this.#atMs = nowMs;
    const processCpu = process.cpuUsage();
    const threadCpu = process.threadCpuUsage();
    const cpu = {
      process: cpuMsBetween(this.#processCpu, processCpu) / elapsedMs / availableParallelism(),
      eventLoop: cpuMsBetween(this.#threadCpu, threadCpu) / elapsedMs,
      decoder: this.#decoderShare(),
      mixThreads: this.#mixThreadShares(),
      mediaWorkers: this.#mediaWorkerShares(),
    };
    this.#processCpu = processCpu;
    this.#threadCpu = threadCpu;
    return { loopDelayMs: this.#sampleDelay(), cpu, memoryBytes: this.#sampleMemory() };
  }

  close(): void {
    this.#delay.disable();
  }

  /** Returns resident memory in bytes; the previous value when no file descriptor is left to read it. */
  #sampleMemory(): number {
    try {
      this.#memoryBytes = process.memoryUsage.rss();
    } catch {
      // EMFILE: the next sample may find a free descriptor.
    }
    return this.#memoryBytes;
  }

  #sampleDelay(): LoadSample['loopDelayMs'] {
    const before = this.#utilization;
    this.#utilization = eventLoopUtilization();
    const { utilization } = eventLoopUtilization(this.#utilization, before);
    const isWatching = this.#isWatchingDelay && this.#delay.count > 0;
    const late = (percentile: number) =>
      isWatching ? Math.max(0, this.#delay.percentile(percentile) / 1e6 - RESOLUTION_MS) : 0;
    const delay = { p50: late(50), p99: late(99) };
    this.#delay.reset();
    this.#isWatchingDelay = utilization >= IDLE_SHARE;
    if (this.#isWatchingDelay) this.#delay.enable();
    else this.#delay.disable();
    return delay;
  }
}

const cpuMsBetween = (before: NodeJS.CpuUsage, after: NodeJS.CpuUsage) =>
  (after.user - before.user + after.system - before.system) / 1000;
