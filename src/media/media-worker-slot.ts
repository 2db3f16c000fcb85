import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { noteShortage } from '../resources.ts';
import type { MediaSettings } from './media-settings.ts';
import { isPortTaken, MediaWorker } from './media-worker.ts';

/** Returns the delay before a media worker is replaced after a number of consecutive deaths, ms; 0 after the first. */
export const replaceAfterMs = (
  deathsInARow: number,
  { firstReplacementMs, longestReplacementMs }: Timings['mediaWorkers'],
): number =>
  deathsInARow <= 1
    ? 0
    : Math.min(firstReplacementMs * 2 ** (deathsInARow - 2), longestReplacementMs);

/** State of a media worker's slot, for operators. */
export type MediaWorkerDescription = {
  index: number;
  pid: number | undefined;
  rtcPort: number;
  state: 'running' | 'replacing';
  /** CPU used recently, as a share of one core. */
  cpuShare: number;
  routers: number;
  consumers: number;
  /** Number of media workers in the slot before this one. */
  restarts: number;
};

/**
 * Slot of one media worker, which is replaced when it is lost. While replacements die soon after their start, the delay before the
 * next one grows.
 */
export class MediaWorkerSlot {
  readonly #index: number;
  readonly #settings: MediaSettings;
  readonly #log: FastifyBaseLogger;
  readonly #closing = new AbortController();
  #worker: MediaWorker | undefined;
  #supervision: Promise<void> = Promise.resolve();
  #nextStart = Promise.withResolvers<void>();
  #deathsInARow = 0;
  #restarts = 0;
  #lacksPort = false;

  constructor(index: number, settings: MediaSettings, log: FastifyBaseLogger) {
    this.#index = index;
    this.#settings = settings;
    this.#log = log;
  }

  /** Starts the media worker, and replaces it from then on. @throws {Error} if it does not start; this is not tried again */
  async open(): Promise<void> {
    await this.#start();
    this.#supervision = this.#supervise();
  }

  /** The running media worker; undefined while it is being replaced. */
  get worker(): MediaWorker | undefined {
    return this.#worker?.isLost ? undefined : this.#worker;
  }

  /** True while no media worker can be started because another program has its WebRTC port. */
  get lacksPort(): boolean {
    return this.#lacksPort;
  }

  /**
   * Promise that resolves when a media worker runs. Rooms read it when they lose their media worker, possibly before
   * {@link MediaWorkerSlot.#supervise} has seen the loss.
   */
  get running(): Promise<void> {
    return this.worker ? Promise.resolve() : this.#nextStart.promise;
  }

  describe(): MediaWorkerDescription {
    const { worker } = this;
    return {
      index: this.#index,
      pid: worker?.pid,
      rtcPort: this.#settings.rtcPort + this.#index,
      state: worker ? 'running' : 'replacing',
      ...(worker?.load ?? { cpuShare: 0, routers: 0, consumers: 0 }),
      restarts: this.#restarts,
    };
  }

  /** Ends the replacement of media workers; to be called before they are ended on purpose. One that is starting is killed. */
  expectExit(): void {
    this.#closing.abort();
    this.#worker?.expectExit();
  }

  /** Stops the media worker; resolves when its process has ended. */
  async close(): Promise<void> {
    this.expectExit();
    await this.#worker?.close();
    await this.#supervision;
  }

  async #start(): Promise<void> {
    const { signal } = this.#closing;
    const worker = await MediaWorker.start(this.#index, this.#settings, this.#log, signal);
    this.#worker = worker;
    this.#lacksPort = false;
    if (signal.aborted) await worker.close();
    else this.#announceStart();
  }

  #announceStart(): void {
    const { resolve } = this.#nextStart;
    this.#nextStart = Promise.withResolvers();
    resolve();
  }

  /** Replaces the media worker whenever it is lost, until the slot is closed. */
  async #supervise(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const startedAtMs = performance.now();
      await this.#worker?.lost;
      await this.#worker?.gone;
      if (performance.now() - startedAtMs >= this.#settings.timings.steadyAfterMs)
        this.#deathsInARow = 0;
      await this.#replace(signal);
    }
  }

  async #replace(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#deathsInARow += 1;
      const waitMs = replaceAfterMs(this.#deathsInARow, this.#settings.timings);
      try {
        await delay(waitMs, undefined, { signal });
        await this.#start();
        this.#restarts += 1;
        return;
      } catch (fault) {
        if (signal.aborted) return;
        noteShortage(fault);
        this.#lacksPort = isPortTaken(fault);
        const where = { err: fault, mediaWorker: this.#index };
        this.#log.error(where, 'media worker not replaced');
      }
    }
  }
}
