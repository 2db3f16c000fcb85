import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { PartylineError } from '../protocol/errors.ts';
import { noteShortage } from '../resources.ts';
import type { ClientTransportOptions } from './client-transport.ts';
import type { WebRtcOutput } from './listening-router.ts';
import { leastLoaded } from './load.ts';
import type { MediaSettings } from './media-settings.ts';
import { type MediaWorkerDescription, MediaWorkerSlot } from './media-worker-slot.ts';
import type { MediaWorker } from './media-worker.ts';
import { RoomRouter } from './room-router.ts';

/** The media workers of this process, and the assignment of rooms to them. */
export class MediaWorkerPool {
  readonly #settings: MediaSettings;
  readonly #log: FastifyBaseLogger;
  readonly #slots: MediaWorkerSlot[];
  #isExitExpected = false;

  private constructor(settings: MediaSettings, log: FastifyBaseLogger) {
    this.#settings = settings;
    this.#log = log;
    this.#slots = Array.from(
      { length: settings.mediaWorkers },
      (_, index) => new MediaWorkerSlot(index, settings, log),
    );
  }

  /**
   * Starts the media workers.
   * @throws {Error} if one does not start, or its port is taken; all are closed before
   */
  static async open(settings: MediaSettings, log: FastifyBaseLogger): Promise<MediaWorkerPool> {
    const pool = new MediaWorkerPool(settings, log);
    const starts = await Promise.allSettled(pool.#slots.map((slot) => slot.open()));
    const failed = starts.find((start) => start.status === 'rejected');
    if (failed) {
      await pool.close();
      throw failed.reason;
    }
    return pool;
  }

  /** Process ids of the media workers, for measurements. */
  get pids(): number[] {
    return this.#running.map(({ pid }) => pid);
  }

  /** Counts the media workers that cannot be started because other programs have their WebRTC ports. */
  countLackingPort(): number {
    return this.#slots.filter(({ lacksPort }) => lacksPort).length;
  }

  /** Durations by which rooms wait for media workers. */
  get timings(): Timings['mediaWorkers'] {
    return this.#settings.timings;
  }

  /** State of each media worker, for operators. */
  describe(): MediaWorkerDescription[] {
    return this.#slots.map((slot) => slot.describe());
  }

  /** Returns the number of routers that the media workers themselves report, to find leaks. */
  async countRouters(): Promise<number> {
    const routers = await Promise.all(this.#running.map((worker) => worker.countRouters()));
    return routers.reduce((sum, count) => sum + count, 0);
  }

  /**
   * Opens the router of one room on the media worker with the least load; while none runs, on the first that is replaced. If a
   * media worker lives but cannot open it, for example because it has no descriptor left, another one is tried.
   * @param onLost called once if a media worker of the router dies
   * @param expectedSpeakers number of speakers that are about to come, of a router that it replaces
   * @throws {PartylineError} `overloaded` if none has been replaced within 5 s; {Error} if none can open it
   */
  openRouter(onLost: () => void, expectedSpeakers = 0): Promise<RoomRouter> {
    return this.#openOnOne((worker) =>
      RoomRouter.open(worker, {
        chooseOther: (taken) => this.#choose(taken),
        maxConsumers: this.#settings.routerMaxConsumers,
        expectedSpeakers,
        spreadAgainAfterMs: this.timings.spreadAgainAfterMs,
        log: this.#log,
        onLost: () => {
          if (!this.#isExitExpected) onLost();
        },
      }),
    );
  }

  /**
   * Opens a stream to a client that only listens, on the media worker with the least load.
   * @param payloadType RTP payload type under which the client accepts Opus
   * @throws {Error} as {@link openRouter} does
   */
  openOutput(payloadType: number, options: ClientTransportOptions): Promise<WebRtcOutput> {
    return this.#openOnOne((worker) => worker.listening.openOutput(payloadType, options));
  }

  async #openOnOne<T>(open: (worker: MediaWorker) => Promise<T>): Promise<T> {
    const failed: MediaWorker[] = [];
    let worker: MediaWorker | undefined;
    for (;;) {
      worker ??= this.#choose([]) ?? leastLoaded(this.#running) ?? (await this.#firstReplaced());
      try {
        return await open(worker);
      } catch (fault) {
        // It hung or died after it was chosen.
        if (worker.isLost) {
          worker = undefined;
          continue;
        }
        noteShortage(fault);
        failed.push(worker);
        worker = this.#choose(failed);
        if (!worker) throw fault;
        this.#log.warn({ err: fault }, 'router not opened; trying another media worker');
      }
    }
  }

  /** True once the pool is about to be closed. */
  get isExitExpected(): boolean {
    return this.#isExitExpected;
  }

  /** Announces the end of the pool: media workers that end from now on are not replaced. */
  expectExit(): void {
    this.#isExitExpected = true;
    for (const slot of this.#slots) slot.expectExit();
  }

  /** Resolves when the processes have ended. */
  async close(): Promise<void> {
    await Promise.all(this.#slots.map((slot) => slot.close()));
  }

  get #running(): MediaWorker[] {
    return this.#slots.flatMap(({ worker }) => worker ?? []);
  }

  #choose(taken: MediaWorker[]): MediaWorker | undefined {
    return leastLoaded(
      this.#running.filter((worker) => worker.isResponsive && !taken.includes(worker)),
    );
  }

  async #firstReplaced(): Promise<MediaWorker> {
    const waiting = new AbortController();
    // A media worker that keeps dying may be missing for a long time.
    const { longestWaitMs } = this.timings;
    const deadline = delay(longestWaitMs, undefined, { signal: waiting.signal }).catch(() => {});
    await Promise.race([...this.#slots.map(({ running }) => running), deadline]);
    waiting.abort();
    const worker = leastLoaded(this.#running);
    if (worker) return worker;
    const options = { retryAfterMs: longestWaitMs };
    throw new PartylineError('overloaded', 'This node has no media worker at present.', options);
  }
}
