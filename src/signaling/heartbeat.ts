import type { WebSocket } from 'ws';

const SILENCE_IS_DEATH_MS = 30_000;

/** Whether a client lives: any frame counts as life, and it is pinged so that there are some. */
export class Heartbeat {
  readonly #socket: WebSocket;
  readonly #everyMs: number;
  #heardAtMs = performance.now();
  #pingedAtMs: number;
  #isPinged = false;
  #rttMs: number | undefined;

  /** @param everyMs how often it is pinged */
  constructor(socket: WebSocket, everyMs: number) {
    this.#socket = socket;
    this.#everyMs = everyMs;
    // Clients that came at once are not pinged at once, but each in half that time: what is told every so often tells the rtt.
    this.#pingedAtMs = performance.now() - (everyMs * (1 + Math.random())) / 2;
    socket.on('ping', () => this.heard());
    socket.on('pong', () => {
      const nowMs = this.heard();
      if (this.#isPinged) this.#rttMs = nowMs - this.#pingedAtMs;
      this.#isPinged = false;
    });
  }

  /** How long the last answered ping took. */
  get rttMs(): number | undefined {
    return this.#rttMs;
  }

  /** Something came from the client. @returns when */
  heard(): number {
    this.#heardAtMs = performance.now();
    return this.#heardAtMs;
  }

  /**
   * Pings when it is time to.
   * @returns false if nothing was heard for 30 s
   */
  beat(nowMs: number): boolean {
    if (nowMs - this.#heardAtMs >= SILENCE_IS_DEATH_MS) return false;
    if (nowMs - this.#pingedAtMs >= this.#everyMs) {
      this.#pingedAtMs = nowMs;
      this.#isPinged = true;
      this.#socket.ping();
    }
    return true;
  }
}
