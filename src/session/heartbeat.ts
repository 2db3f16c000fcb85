import type { Timings } from '../../config/timings.ts';
import type { Pings } from './pings.ts';

/** The part of a WebSocket that sends pings. */
type Pinged = { ping(payload: Buffer): void };

/** Maximum age of a ping among audio frames that replaces one of the heartbeat, ms. */
const RECENT_MS = 1000;

/** Stream of a client, with the number of bytes that have come. */
type Counted = { readonly bytesRead: number };

/** Checks that a client lives: any frame, or a part of one, is a sign of life, and pings make it send some. */
export class Heartbeat {
  readonly #socket: Pinged;
  readonly #stream: Counted;
  readonly #everyMs: number;
  readonly #pings: Pings;
  readonly #silentAfterMs: number;
  /** Time of the beat before which bytes last came from the client, ms of the monotonic clock. */
  #heardAtMs = performance.now();
  /** Bytes that had come at the last beat. */
  #bytesBefore: number;
  #pingedAtMs: number;

  /** @param everyMs interval of pings */
  constructor(
    socket: Pinged,
    stream: Counted,
    everyMs: number,
    pings: Pings,
    { silentAfterMs }: Pick<Timings['sessions'], 'silentAfterMs'>,
  ) {
    this.#socket = socket;
    this.#stream = stream;
    this.#bytesBefore = stream.bytesRead;
    this.#everyMs = everyMs;
    this.#pings = pings;
    this.#silentAfterMs = silentAfterMs;
    // Clients that connected at once are pinged at different times, each within half of that
    // interval.
    this.#pingedAtMs = performance.now() - (everyMs * (1 + Math.random())) / 2;
  }

  /** Pings at once: the answer shows that the client answers, and its round-trip time. */
  ping(nowMs: number): void {
    this.#socket.ping(this.#pings.payload(nowMs));
  }

  /**
   * Pings if a ping is due.
   * @param nowMs time until which all that came has been read
   * @param isRead false if the gateway has not read the client, whose silence then proves nothing
   * @returns `silent` if nothing was heard for `silentAfterMs`
   */
  beat(nowMs: number, isRead: boolean): 'alive' | 'silent' {
    // ws emits nothing for a message that is still incomplete, and the pongs of some clients wait
    // for its end.
    const { bytesRead } = this.#stream;
    if (!isRead) this.#heardAtMs = Math.max(this.#heardAtMs, nowMs);
    if (bytesRead !== this.#bytesBefore) this.#heardAtMs = performance.now();
    this.#bytesBefore = bytesRead;
    if (nowMs - this.#heardAtMs >= this.#silentAfterMs) return 'silent';
    if (nowMs - this.#pingedAtMs >= this.#everyMs) {
      this.#pingedAtMs = nowMs;
      if (nowMs - this.#pings.lastAtMs > RECENT_MS) this.ping(performance.now());
    }
    return 'alive';
  }
}
