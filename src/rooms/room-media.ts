import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { ClientTransportOptions } from '../media/client-transport.ts';
import type { WebRtcOutput } from '../media/listening-router.ts';
import type { MediaWorkerPool } from '../media/media-worker-pool.ts';
import type { RoomRouter } from '../media/room-router.ts';
import type { WebRtcInput, WebRtcInputOptions } from '../media/webrtc-input.ts';
import { mediaLost, type WebRtcLeg, type WebRtcLegEvents } from '../media/webrtc-leg.ts';
import { PartylineError } from '../protocol/errors.ts';

export type RoomMediaEvents = {
  /** Called when the media worker died, and the room's media on it is lost. */
  onLost: () => void;
  /** Called when the room has a router on another media worker. */
  onReplaced: (router: RoomRouter) => void;
};

const MAX_ATTEMPTS = 3;

/** The router of a room, replaced by one on another media worker when its own dies. */
export class RoomMedia {
  readonly #pool: MediaWorkerPool;
  readonly #log: FastifyBaseLogger;
  readonly #events: RoomMediaEvents;
  /** Undefined between the death of a media worker and the opening of a router on another. */
  #router: RoomRouter | undefined;
  #replacing: Promise<RoomRouter> | undefined;
  readonly #closing = new AbortController();

  private constructor(pool: MediaWorkerPool, log: FastifyBaseLogger, events: RoomMediaEvents) {
    this.#pool = pool;
    this.#log = log;
    this.#events = events;
  }

  /** @throws {Error} if no media worker can open a router */
  static async open(
    pool: MediaWorkerPool,
    log: FastifyBaseLogger,
    events: RoomMediaEvents,
  ): Promise<RoomMedia> {
    const media = new RoomMedia(pool, log, events);
    media.#router = await pool.openRouter(() => media.#lost());
    return media;
  }

  get isAvailable(): boolean {
    return this.#router !== undefined;
  }

  /** @throws {PartylineError} `media_lost` while it is being replaced */
  get router(): RoomRouter {
    if (this.#router) return this.#router;
    throw mediaLost(undefined);
  }

  /**
   * Opens a browser's leg on the present router, or on the next one if its media worker dies meanwhile.
   * @throws {PartylineError} `media_lost` if several media workers die one after the other, or none is available in time
   */
  openWebRtcLeg(events: WebRtcLegEvents): Promise<{ leg: WebRtcLeg; router: RoomRouter }> {
    return this.#openOn(async (router) => ({ leg: await router.openWebRtcLeg(events), router }));
  }

  /** Opens the input of a client that hears nothing from the router, in the same way. @throws {PartylineError} `media_lost` */
  openInput(options: WebRtcInputOptions): Promise<WebRtcInput> {
    return this.#openOn((router) => router.openInput(options));
  }

  /** Opens a stream to a client that hears the mixer, which does not need the router. @throws {Error} if no media worker can open it */
  openOutput(payloadType: number, options: ClientTransportOptions): Promise<WebRtcOutput> {
    return this.#pool.openOutput(payloadType, options);
  }

  async #openOn<T>(open: (router: RoomRouter) => Promise<T>): Promise<T> {
    for (let attempts = 1; ; attempts += 1) {
      const router = this.#router ?? (await this.#nextRouter());
      try {
        return await open(router);
      } catch (fault) {
        const isLost = fault instanceof PartylineError && fault.code === 'media_lost';
        if (!isLost || attempts === MAX_ATTEMPTS) throw fault;
      }
    }
  }

  /** Waits for the next router, but not for ever: a media worker may be missing for long. @throws {PartylineError} `media_lost` */
  async #nextRouter(): Promise<RoomRouter> {
    const waiting = new AbortController();
    const { signal } = waiting;
    const deadline = delay(this.#pool.timings.longestWaitMs, undefined, { signal }).catch(
      () => undefined,
    );
    try {
      return (await Promise.race([this.#replacing, deadline])) ?? this.router;
    } finally {
      waiting.abort();
    }
  }

  close(): void {
    this.#closing.abort();
    this.#router?.close();
  }

  #lost(): void {
    const speakers = this.#router?.expectedSpeakers ?? 0;
    this.#router = undefined;
    if (this.#closing.signal.aborted) return;
    // When all processes are ended at once, this one may see the others end before its own signal.
    setImmediate(() => {
      if (!this.#pool.isExitExpected) this.#log.warn('media worker of the room died');
    });
    this.#events.onLost();
    this.#replacing = this.#replace(speakers);
    // It fails only if the room was closed.
    this.#replacing.catch(() => {});
  }

  /**
   * Opens a router on another media worker; retries with growing delays for as long as the room exists,
   * because media workers may die one after the other.
   * @param speakers number of speakers that the lost router had
   */
  async #replace(speakers: number): Promise<RoomRouter> {
    const { signal } = this.#closing;
    const { firstRoomRetryMs, longestRoomRetryMs } = this.#pool.timings;
    for (let waitMs = firstRoomRetryMs; ; waitMs = Math.min(2 * waitMs, longestRoomRetryMs)) {
      try {
        const router = await this.#pool.openRouter(() => this.#lost(), speakers);
        if (signal.aborted) router.close();
        signal.throwIfAborted();
        this.#router = router;
        this.#events.onReplaced(router);
        return router;
      } catch (fault) {
        signal.throwIfAborted();
        this.#log.warn({ err: fault }, 'room has no media worker; retrying');
        await delay(waitMs, undefined, { signal });
      }
    }
  }
}
