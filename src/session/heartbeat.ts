import type { Timings } from '../../config/timings.ts';
import type { Pings } from './pings.ts';

/** The part of a WebSocket that sends pings. */
type Pinged = {
  on(event: 'ping' | 'pong', listener: () => void): unknown;
  ping(payload: Buffer): void;
};

/** Maximum age of a ping among audio frames that replaces one of the heartbeat, ms. */
const RECENT_MS = 1000;

/** Checks that a client lives: any frame is a sign of life, and pings make it send some. */
export class Heartbeat {
  readonly #socket: Pinged;
  readonly #everyMs: number;
  readonly #pings: Pings;
  readonly #silentAfterMs: number;
  /** Time of the last frame from the client, ms of the monotonic clock. Written for every frame. */
  heardAtMs = performance.now();
  #pingedAtMs: number;

  /** @param everyMs interval of pings */
  constructor(
    socket: Pinged,
    everyMs: number,
    pings: Pings,
    { silentAfterMs }: Pick<Timings['sessions'], 'silentAfterMs'>,
  ) {
    this.#socket = socket;
    this.#everyMs = everyMs;
    this.#pings = pings;
    this.#silentAfterMs = silentAfterMs;
    // Clients that connected at once are pinged at different times, each within half of that interval.
    this.#pingedAtMs = performance.now() - (everyMs * (1 + Math.random())) / 2;
    for (const event of ['ping', 'pong'] as const) {
      socket.on(event, () => (this.heardAtMs = performance.now()));
    }
  }

  /** Pings at once: the answer shows that the client answers, and its round-trip time. */
  ping(nowMs: number): void {
    this.#socket.ping(this.#pings.payload(nowMs));
  }

  /**
   * Pings if a ping is due.
   * @param isRead false while the gateway does not read the client, whose silence then proves nothing
   * @returns `silent` if nothing was heard for `silentAfterMs`
   */
  beat(nowMs: number, isRead: boolean): 'alive' | 'silent' {
    if (!isRead) this.heardAtMs = performance.now();
    if (nowMs - this.heardAtMs >= this.#silentAfterMs) return 'silent';
    if (nowMs - this.#pingedAtMs >= this.#everyMs) {
      this.#pingedAtMs = nowMs;
      if (nowMs - this.#pings.lastAtMs > RECENT_MS) this.ping(nowMs);
    }
    return 'alive';
  }
}
