import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { createWorker } from 'mediasoup';
import type { WebRtcServer, Worker } from 'mediasoup/types';
import { RoomRouter } from './room-router.ts';

export type MediaSettings = {
  mediaWorkers: number;
  workerBin: string;
  rtcListenIp: string;
  /** Told to browsers in place of `rtcListenIp`; empty if they are the same. */
  rtcAnnouncedAddress: string;
  /** UDP and TCP port of the first media worker's WebRtcServer; each further one takes the next. */
  rtcPort: number;
};

type MediaWorker = { worker: Worker; webRtcServer: WebRtcServer; routers: Set<RoomRouter> };

/** A media worker that dies is replaced after this time; one that keeps dying does not keep the process busy. */
const REPLACE_AFTER_MS = 500;

/** The media workers of this process: mediasoup child processes, each with one port for all its browsers. */
export class MediaWorkerPool {
  readonly #settings: MediaSettings;
  readonly #log: FastifyBaseLogger;
  readonly #workers = new Map<number, MediaWorker>();
  /** Resolves when the media worker is there again, rejects when this attempt failed and the next is made. */
  readonly #replacements = new Map<number, Promise<void>>();
  readonly #closing = new AbortController();

  private constructor(settings: MediaSettings, log: FastifyBaseLogger) {
    this.#settings = settings;
    this.#log = log;
  }

  /**
   * Starts the media workers.
   * @throws {Error} if one does not start, or its port is taken; none is left running then
   */
  static async open(settings: MediaSettings, log: FastifyBaseLogger): Promise<MediaWorkerPool> {
    const pool = new MediaWorkerPool(settings, log);
    try {
      const indexes = Array.from({ length: settings.mediaWorkers }, (_, index) => index);
      await Promise.all(indexes.map((index) => pool.#start(index)));
    } catch (fault) {
      pool.close();
      throw fault;
    }
    return pool;
  }

  /** The process ids of the media workers, for those who measure what they cost. */
  get pids(): number[] {
    return [...this.#workers.values()].map(({ worker }) => worker.pid);
  }

  /** CPU that the media workers which run have used, in seconds. */
  async cpuSeconds(): Promise<number> {
    const usages = await Promise.all(
      [...this.#workers.values()].map(({ worker }) => worker.getResourceUsage()),
    );
    return (
      usages.reduce((sum, { ru_utime: user, ru_stime: system }) => sum + user + system, 0) / 1000
    );
  }

  /** How many routers the media workers themselves know of; for those who look for leaks. */
  async countRouters(): Promise<number> {
    const dumps = await Promise.all([...this.#workers.values()].map(({ worker }) => worker.dump()));
    return dumps.reduce((count, { routerIds }) => count + routerIds.length, 0);
  }

  /**
   * Opens a router for one room on the media worker that has the fewest; when all have died, on the first that is
   * replaced: those whom a death has put out come back before that.
   * @param onLost called once if the media worker dies under it
   */
  async openRouter(onLost: () => void): Promise<RoomRouter> {
    if (this.#workers.size === 0) await Promise.any(this.#replacements.values());
    const [least] = [...this.#workers.values()].toSorted((a, b) => a.routers.size - b.routers.size);
    if (!least) throw new Error('no media worker is running');
    const router = await RoomRouter.open(least.worker, least.webRtcServer, {
      onClosed: () => least.routers.delete(router),
      onLost,
    });
    least.routers.add(router);
    return router;
  }

  get #closed(): boolean {
    return this.#closing.signal.aborted;
  }

  close(): void {
    if (this.#closed) return;
    this.#closing.abort();
    for (const { worker } of this.#workers.values()) worker.close();
    this.#workers.clear();
  }

  async #start(index: number): Promise<void> {
    const { rtcListenIp: ip, rtcAnnouncedAddress, rtcPort, workerBin } = this.#settings;
    const worker = await createWorker({ workerBin, logLevel: 'warn', appData: { index } });
    const log = this.#log.child({ mediaWorker: index, mediaWorkerPid: worker.pid });
    const announced = rtcAnnouncedAddress ? { announcedAddress: rtcAnnouncedAddress } : {};
    const port = rtcPort + index;
    try {
      const webRtcServer = await worker.createWebRtcServer({
        listenInfos: [
          { protocol: 'udp', ip, port, ...announced },
          { protocol: 'tcp', ip, port, ...announced },
        ],
      });
      if (this.#closed) throw new Error('closed while a media worker was starting');
      this.#workers.set(index, { worker, webRtcServer, routers: new Set() });
    } catch (cause) {
      worker.close();
      throw new Error(`WebRTC port ${port} on ${ip} cannot be opened (RTC_LISTEN_IP, RTC_PORT)`, {
        cause,
      });
    }
    worker.on('died', (fault) => {
      log.error({ err: fault }, 'media worker died; it is being replaced');
      this.#workers.delete(index);
      this.#replaceLater(index);
    });
    log.info({ rtcPort: port }, 'media worker started');
  }

  #replaceLater(index: number): void {
    const { signal } = this.#closing;
    const replaced = delay(REPLACE_AFTER_MS, undefined, { signal }).then(() => this.#start(index));
    this.#replacements.set(index, replaced);
    replaced.then(
      () => this.#replacements.delete(index),
      (fault: unknown) => {
        if (this.#closed) return;
        this.#log.error({ err: fault, mediaWorker: index }, 'media worker could not be replaced');
        this.#replaceLater(index);
      },
    );
  }
}
