import type { Timings } from '../../config/timings.ts';
import type { Pings } from './pings.ts';

/** A WebSocket, as far as pings go. */
type Pinged = {
  on(event: 'ping' | 'pong', listener: () => void): unknown;
  ping(payload: Buffer): void;
};

/** A ping among the sound that is no older than this stands for one of the heartbeat. */
const RECENT_MS = 1000;

/** Watch over whether a client lives: any frame is a sign of life, and pings make it send some. */
export class Heartbeat {
  readonly #socket: Pinged;
  readonly #everyMs: number;
  readonly #pings: Pings;
  readonly #silentAfterMs: number;
  /** When something came from the client last, ms of the monotonic clock. Written for every frame. */
  heardAtMs = performance.now();
  #pingedAtMs: number;

  /** @param everyMs how often it is pinged */
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
    // Clients that came at once are not pinged at once, but each in half that time.
    this.#pingedAtMs = performance.now() - (everyMs * (1 + Math.random())) / 2;
    for (const event of ['ping', 'pong'] as const) {
      socket.on(event, () => (this.heardAtMs = performance.now()));
    }
  }

  /** Pings at once: the first answer tells that the client answers, and how long its path is. */
  ping(nowMs: number): void {
    this.#socket.ping(this.#pings.payload(nowMs));
  }

  /**
   * Pings when it is time to.
   * @param isRead false while the gateway does not read the client: that nothing is heard says nothing then
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
