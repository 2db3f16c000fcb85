import type { Timings } from '../../config/timings.ts';

/** A WebSocket, as far as pings go. */
type Pinged = { on(event: 'ping' | 'pong', listener: () => void): unknown; ping(): void };

/** Watch over whether a client lives: any frame is a sign of life, and pings make it send some. */
export class Heartbeat {
  readonly #socket: Pinged;
  readonly #everyMs: number;
  readonly #timings: Timings['sessions'];
  #heardAtMs = performance.now();
  #pingedAtMs: number;
  /** When the oldest ping went out that has no answer. */
  #unansweredSinceMs: number | undefined;
  /** When the client was first heard after that: a network that was away delivers what it has kept before the answer. */
  #heardSinceMs: number | undefined;
  #rttMs: number | undefined;

  /** @param everyMs how often it is pinged */
  constructor(socket: Pinged, everyMs: number, timings: Timings['sessions']) {
    this.#socket = socket;
    this.#everyMs = everyMs;
    this.#timings = timings;
    // Clients that came at once are not pinged at once, but each in half that time: what is told every so often tells the rtt.
    this.#pingedAtMs = performance.now() - (everyMs * (1 + Math.random())) / 2;
    socket.on('ping', () => this.heard());
    socket.on('pong', () => {
      const nowMs = this.heard();
      if (this.#unansweredSinceMs !== undefined) this.#rttMs = nowMs - this.#unansweredSinceMs;
      this.#unansweredSinceMs = undefined;
      this.#heardSinceMs = undefined;
    });
  }

  /** How long the last answered ping took. */
  get rttMs(): number | undefined {
    return this.#rttMs;
  }

  /** Something came from the client. @returns when */
  heard(): number {
    this.#heardAtMs = performance.now();
    if (this.#unansweredSinceMs !== undefined) this.#heardSinceMs ??= this.#heardAtMs;
    return this.#heardAtMs;
  }

  /** The gateway itself does not read the client at the moment: that nothing is heard says nothing. */
  notRead(): void {
    this.#heardAtMs = performance.now();
    this.#heardSinceMs = undefined;
  }

  /**
   * Pings when it is time to.
   * @returns `silent` if nothing was heard for `silentAfterMs`; `unread` if the client, which has answered pings before, has
   *   sent things for `slowAfterMs` but no answer: what it is sent waits in its machine, where it cannot be seen
   */
  beat(nowMs: number): 'alive' | 'silent' | 'unread' {
    if (nowMs - this.#heardAtMs >= this.#timings.silentAfterMs) return 'silent';
    const hasAnswered = this.#rttMs !== undefined;
    const heardForMs = this.#heardAtMs - (this.#heardSinceMs ?? this.#heardAtMs);
    if (hasAnswered && heardForMs >= this.#timings.slowAfterMs) return 'unread';
    if (nowMs - this.#pingedAtMs >= this.#everyMs) {
      this.#pingedAtMs = nowMs;
      this.#unansweredSinceMs ??= nowMs;
      this.#socket.ping();
    }
    return 'alive';
  }
}
